// SPDX-License-Identifier: BSD-3-Clause
// What TSO makes of a packet, written after the NICs' data sheets and Linux's tcp_gso_segment(), not
// after what is tested.
#pragma once
#include <vector>

#include "tests/support/frame.h"

namespace test {

// The frames on the wire: `size` bytes of payload each. Headers but lengths, sequence number, IPv4
// identification, flags and checksums are the packet's. PSH and FIN are left to the last, CWR to the first.
std::vector<Bytes> cut_as_nic(const Bytes& frame, size_t l2_len, size_t l3_len, size_t l4_len, size_t size);

}  // namespace test
