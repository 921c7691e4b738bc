// SPDX-License-Identifier: BSD-3-Clause
// DPDK's own libraries on the same packets.
#pragma once
#include <memory>

#include "bench/engine.h"

namespace bench {

// librte_gro, which merges IPv4 without making checksums. `polls` between flushes decide the size of
// its packets: with `flows` that take turns one by one, 6 x flows / 32 give six segments each.
std::unique_ptr<Subject> gro(Wires& wires, uint32_t flows, uint32_t polls);

// librte_gso, and behind it a pass that makes the checksums that it leaves open.
enum class Sums : uint8_t { kNone, kMade };
std::unique_ptr<Subject> gso(Wires& wires, Sums sums);

// MergeFloor from the outside to the inside, or the other way.
std::unique_ptr<Subject> merge_floor(Wires& wires, pxio::Direction d);
// Reads the payload of what comes from inside, and passes it on whole.
std::unique_ptr<Subject> read_floor(Wires& wires);

}  // namespace bench
