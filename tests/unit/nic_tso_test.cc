// SPDX-License-Identifier: BSD-3-Clause
// The emulated NIC's TSO and checksums.
#include "bench/nic/cut.h"
#include "pxio/dp/split.h"
#include "tests/support/checks.h"
#include "tests/support/eal.h"
#include "tests/support/flow.h"

using namespace test;
using pxio::PktPtr;

namespace {

std::vector<Decoded> cut(const Frame& f, uint16_t segsz) {
  std::vector<Decoded> out;
  const uint32_t n = softnic::cut(
      f.bytes, segsz, [&](softnic::Frame p) { out.push_back(decode(Bytes(p.begin(), p.end()))); });
  CHECK(n == out.size());
  return out;
}

}  // namespace

TEST_CASE("NIC: TSO makes frames of the segment size, headers and checksums right", "[nic]") {
  for (const Shape& shape : all_shapes()) {
    const Flow flow(shape);
    for (size_t len : {1u, 1447u, 1448u, 1449u, 8948u, 40001u, 65400u}) {
      for (uint16_t segsz : {uint16_t{1}, uint16_t{536}, uint16_t{1448}, uint16_t{65000}}) {
        if (len / segsz > 200) continue;
        Tcp t = flow.out(0, len);
        t.add_flags(PSH | FIN | CWR | ECE).id(0xfffe).damage();  // whatever the checksum was
        check_split(cut(t, segsz), t, segsz);
      }
    }
  }
}

TEST_CASE("NIC: TSO and the engine's split make the same bytes", "[nic]") {
  NoLeak guard;
  const pxio::Buffers buffers = pools().buffers();
  for (const Shape& shape : all_shapes()) {
    const Flow flow(shape);
    for (size_t len : {1449u, 2896u, 8000u, 8948u}) {
      for (uint16_t piece : {uint16_t{536}, uint16_t{1220}, uint16_t{1448}}) {
        Tcp t = flow.out(0, len);
        t.add_flags(PSH | FIN | CWR | ECE).id(0xfffe).tos(3);
        const PktPtr packet = to_mbuf(t.build(), buffers);
        const pxio::PacketView v = pxio::parse(*packet, pxio::Link::kEthernet);
        const std::vector<Decoded> ours = cut(t, piece);
        std::vector<rte_mbuf*> pieces(ours.size());
        REQUIRE(pxio::split(*packet, v, piece, static_cast<uint16_t>(pieces.size()),
                            pxio::CwrRule::kFirstOnly, buffers.small,
                            pieces.data()) == pxio::SplitResult::kDone);
        for (size_t i = 0; i < pieces.size(); ++i) {
          CHECK(to_bytes(*pieces[i]) == ours[i].frame);
          PktPtr(pieces[i]).reset();
        }
      }
    }
  }
}

TEST_CASE("NIC: TSO refuses what it can't cut", "[nic]") {
  CHECK(cut(tcp4().data(3000), 0).empty());
  CHECK(cut(tcp4().data(0), 1000).empty());
  CHECK(cut(udp(Lower{}, 1, 2, 3000), 1000).empty());
  Lower fragment;
  fragment.mf = true;
  CHECK(cut(Frame{ip_frame(fragment, 6, tcp4().data(3000).l4())}, 1000).empty());
  Frame short_one = tcp4().data(3000);
  short_one.bytes.resize(2000);
  CHECK(cut(short_one, 1000).empty());
}

TEST_CASE("NIC: checksums left to it are completed", "[nic]") {
  const Frame datagram = udp(Lower{}, 1, 2, 333);
  for (const Frame& f : {tcp4().data(777).build(), tcp6().data(1440).vlan(5).build(),
                         tcp4().data(3).pad_to(60).build(), datagram}) {
    const Decoded d = decode(f.bytes);
    Bytes b = f.bytes;
    const size_t field = d.l2_len + d.l3_len + (d.tcp ? 16 : 6);
    const auto pseudo = static_cast<uint16_t>(
        ~internet_checksum(pseudo_header_sum(d.version, d.src, d.dst, d.proto, d.l4.size())));
    b[field] = static_cast<uint8_t>(pseudo >> 8);
    b[field + 1] = static_cast<uint8_t>(pseudo);
    REQUIRE(softnic::complete_checksum(b));
    CHECK(b == f.bytes);
  }
  Bytes other = ip_frame(Lower{}, 47, Bytes(100));
  CHECK_FALSE(softnic::complete_checksum(other));
  CHECK_FALSE(softnic::complete_checksum(other, other.size() - 17, 16));
}
