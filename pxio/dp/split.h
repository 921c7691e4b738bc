// SPDX-License-Identifier: BSD-3-Clause
// Splitting of a TCP segment into smaller ones: one pass over the payload that copies and sums at once.
// And parting of what a port has merged, so that it can be merged on. Worker thread.
#pragma once
#include <cstdint>

#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace pxio {

// Segments that one packet may become: 64 KB that a port merged of the smallest segments that there are (Linux
// sends no MSS below 48, options included).
inline constexpr uint16_t kMaxSplit = 2048;

enum class SplitResult : uint8_t {
  kDone,
  kBadChecksum,  // the packet's own checksum doesn't hold
  kNoBuffer,
};

// What becomes of CWR (RFC 3168, section 6.1.2: sent once) and, with AccECN (RFC 9768), of the ACE
// counter that it is a bit of.
enum class CwrRule : uint8_t { kFirstOnly, kEverySegment };

// Splits `m` (kind kTcp, without SYN, RST, URG) into ceil(payload / piece) segments of at most `piece`
// bytes of payload, written to `out` in order: n of them, as given by the caller, n <= kMaxSplit. Only
// the last bears PSH and FIN; all options are in every one; the IPv4 ID counts up by one from the
// packet's own. The packet's checksum is proved on the way: where it is wrong nothing is returned, since
// a bad checksum must not become a good one. All buffers come from `pool` or none; `m` stays the
// caller's. Each piece must fit a buffer of the pool.
SplitResult split(const rte_mbuf& m, const PacketView& v, uint16_t piece, uint16_t n, CwrRule cwr,
                  rte_mempool* pool, rte_mbuf** out) noexcept;

// The first or last `len` bytes of the payload of `m` (kind kTcp, more than `len` bytes of it, its checksum proved)
// become a packet of their own, copied to a buffer of `pool`, which must hold them and the headers; `m` keeps the
// rest, and `v` goes with it. PSH and FIN stay with the last bytes; the IPv4 ID counts up by one for every
// `segment` bytes. `part` is what parse() would say of the new packet, which is marked as merged of such segments.
// Null, and nothing has changed: no buffer, or the packet shares its own with others.
PktPtr take_front(rte_mbuf& m, PacketView& v, uint32_t len, uint16_t segment, rte_mempool* pool,
                  PacketView& part) noexcept;
PktPtr take_back(rte_mbuf& m, PacketView& v, uint32_t len, uint16_t segment, rte_mempool* pool,
                 PacketView& part) noexcept;

}  // namespace pxio
