// SPDX-License-Identifier: BSD-3-Clause
// The packet builder and decoder against frames made by scapy 2.5: everything else leans on them.
#include <catch2/catch.hpp>

#include "tests/support/decode.h"

using namespace test;

namespace {

Bytes text_bytes(const char* s) { return Bytes(s, s + std::char_traits<char>::length(s)); }

}  // namespace

TEST_CASE("Builder: TCP over IPv4 with timestamps", "[builder]") {
  const Bytes want = from_hex(
      "020000000002020000000001080045020039123440004006e2860a000001cb0071019c4001bbfffffff00000004d"
      "801803e83aa600000101080a010203040506070868656c6c6f");
  Tcp t = tcp4();
  t.seq(0xfffffff0).ack(77).flags(PSH | ACK).tos(2).id(0x1234).ts(0x01020304, 0x05060708);
  t.bytes(text_bytes("hello"));
  CHECK(to_hex(t.build().bytes) == to_hex(want));
  const Decoded d = decode(want);
  CHECK((d.tcp && d.ip_ok && d.checksum_ok && d.has_ts && d.df));
  CHECK(d.tsval == 0x01020304);
  CHECK(d.tsecr == 0x05060708);
  CHECK(d.payload == text_bytes("hello"));
}

TEST_CASE("Builder: tagged SYN over IPv6 with MSS and ECN bits", "[builder]") {
  const Bytes want = from_hex(
      "0200000000020200000000018100600786dd62812345001c0640fd00000100000000000000000000000120010db8"
      "0000000000000000000000019c4001bb000000050000000070c2ffffbaaf0000020405a001030307");
  Tcp t = tcp6();
  t.seq(5).ack(0).flags(SYN | ECE | CWR).window(65535).mss(1440).option({1, 3, 3, 7});
  t.tos(0x28).vlan(0x6007);
  t.lower.flow_label = 0x12345;
  CHECK(to_hex(t.build().bytes) == to_hex(want));
  const Decoded d = decode(want);
  CHECK((d.tcp && d.checksum_ok && d.tags.size() == 1));
  CHECK(d.mss() == 1440);
  CHECK(d.flow_label == 0x12345);
  CHECK(d.tos == 0x28);
}

TEST_CASE("Builder: two tags, odd payload, no DF", "[builder]") {
  const Bytes want = from_hex(
      "02000000000202000000000188a800648100000708004500002b000100003f0635ca0a000001cb0071019c4001bb"
      "0000000100000001501003e8f48400006f6464");
  Tcp t = tcp4();
  t.seq(1).ack(1).ttl(63).df(false).id(1).vlan(100, 0x88a8).vlan(7).bytes(text_bytes("odd"));
  CHECK(to_hex(t.build().bytes) == to_hex(want));
  CHECK(decode(want).checksum_ok);
}

TEST_CASE("Builder: UDP and too-big errors", "[builder]") {
  Lower lo;
  Bytes b = from_hex(
      "02000000000202000000000108004500001f000040004011f4cb0a000001cb007101003514e9000ba2b6000102");
  const Decoded u = decode(b);
  CHECK((u.version == 4 && u.ip_ok && u.checksum_ok && u.proto == 17 && !u.tcp));
  const Decoded built = decode(udp(lo, 53, 5353, 3).bytes);
  CHECK((built.checksum_ok && built.l4.size() == 11));

  lo.src = addr4(192, 0, 2, 1);
  lo.dst = addr4(10, 0, 0, 1);
  b = from_hex(
      "0200000000020200000000010800450000380000400040016ec3c00002010a000001030459870000057845000028"
      "000940004006f4c40a000001cb0071019c4001bb00000001");
  CHECK(to_hex(too_big(lo, 1400, Bytes(b.end() - 28, b.end())).bytes) == to_hex(b));

  lo = Lower{};
  lo.version = 6;
  lo.src = addr6(0x2001, 0xdb8, 9);
  lo.dst = addr6(0xfd00, 1, 1);
  b = from_hex(
      "02000000000202000000000186dd6000000000383a4020010db8000000000000000000000009fd00000100000000"
      "0000000000000001020098b6000005786000000005a00640fd00000100000000000000000000000120010db80000"
      "000000000000000000019c4001bb00000001");
  CHECK(to_hex(too_big(lo, 1400, Bytes(b.end() - 48, b.end())).bytes, 200) == to_hex(b, 200));
  CHECK(decode(b).checksum_ok);
}
