// SPDX-License-Identifier: BSD-3-Clause
// KernelPort on a veth pair in a network namespace of its own. Needs root. The peer is a plain packet
// socket of the test's, which shares no code with the port.
#include "pxio/dp/kernel_port.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "pxio/dp/checksum.h"
#include "pxio/dp/tx_buffer.h"
#include "tests/support/decode.h"
#include "tests/support/eal.h"

using namespace test;
using pxio::KernelPort;
using pxio::PktPtr;
using pxio::VnetHeader;

namespace {

void run(const std::string& command) {
  INFO(command);
  REQUIRE(std::system((command + " >/dev/null 2>&1").c_str()) == 0);
}

// The other end of the port's interface.
class Peer {
 public:
  explicit Peer(const char* ifname, bool vnet) : vnet_(vnet) {
    fd_ = socket(AF_PACKET, SOCK_RAW, 0);
    REQUIRE(fd_ >= 0);
    const int one = 1;
    if (vnet) REQUIRE(setsockopt(fd_, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) == 0);
    REQUIRE(setsockopt(fd_, SOL_PACKET, PACKET_AUXDATA, &one, sizeof one) == 0);
    REQUIRE(setsockopt(fd_, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) == 0);
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_protocol = htons(ETH_P_ALL);
    to.sll_ifindex = static_cast<int>(if_nametoindex(ifname));
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  }
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void send(const Bytes& frame, const VnetHeader& h = {}) {
    Bytes all;
    if (vnet_) all.assign(reinterpret_cast<const uint8_t*>(&h), reinterpret_cast<const uint8_t*>(&h + 1));
    all.insert(all.end(), frame.begin(), frame.end());
    REQUIRE(::send(fd_, all.data(), all.size(), 0) == static_cast<ssize_t>(all.size()));
  }

  // The next frame as it was on the wire; empty where none comes.
  Bytes receive(int wait_ms = 1000) {
    pollfd p{fd_, POLLIN, 0};
    if (poll(&p, 1, wait_ms) <= 0) return {};
    Bytes b(70000);
    alignas(cmsghdr) char control[256];
    iovec iov{b.data(), b.size()};
    msghdr m{};
    m.msg_iov = &iov;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(fd_, &m, 0);
    REQUIRE(n > 0);
    b.resize(static_cast<size_t>(n));
    if (vnet_) {
      std::memcpy(&last, b.data(), sizeof last);
      b.erase(b.begin(), b.begin() + sizeof last);
    }
    tpacket_auxdata aux{};
    std::memcpy(&aux, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof aux);
    if ((aux.tp_status & TP_STATUS_VLAN_VALID) != 0) {
      const uint16_t tpid = aux.tp_vlan_tpid, tci = aux.tp_vlan_tci;
      const Bytes tag{static_cast<uint8_t>(tpid >> 8), static_cast<uint8_t>(tpid),
                      static_cast<uint8_t>(tci >> 8), static_cast<uint8_t>(tci)};
      b.insert(b.begin() + 12, tag.begin(), tag.end());
    }
    return b;
  }
  VnetHeader last;

 private:
  int fd_;
  bool vnet_;
};

// A pair of interfaces, px0 for the port and px1 for the peer, in a namespace that all cases share.
class Net {
 public:
  explicit Net(int mtu = 9000) {
    static const bool entered = [] {
      if (unshare(CLONE_NEWNET) != 0) return false;
      run("sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1");
      return true;
    }();
    if (!entered) FAIL("these tests make network namespaces: run them as root");
    const std::string m = std::to_string(mtu);
    run("ip link add px0 mtu " + m + " type veth peer name px1 mtu " + m);
    run("ip link set px0 up && ip link set px1 up");
    wait_up();
  }
  // A link that came up this moment still loses what is sent, without a word.
  static void wait_up() {
    run("for n in px0 px1; do timeout 5 sh -c \"until ip link show $n | grep -q 'state UP'; do sleep 0.02; "
        "done\" || exit 1; done; sleep 0.02");
  }
  ~Net() { (void)!std::system("ip link del px0"); }
};

std::unique_ptr<KernelPort> open_port(uint16_t mtu = 9000, uint16_t queues = 1,
                                      pxio::Buffers buffers = pools().buffers(), const char* name = "px0") {
  return KernelPort::open({name, queues, mtu, buffers});
}

std::vector<PktPtr> receive(KernelPort& port, size_t want, uint16_t queue = 0, int wait_ms = 1000) {
  std::vector<PktPtr> r;
  for (int spent = 0; r.size() < want && spent < wait_ms; ++spent) {
    rte_mbuf* m[pxio::kBurst];
    const uint16_t n = port.rx_burst(queue, m, pxio::kBurst);
    for (uint16_t i = 0; i < n; ++i) r.emplace_back(m[i]);
    if (n == 0) usleep(1000);
  }
  return r;
}
// Nothing comes.
bool silent(KernelPort& port, uint16_t queue = 0) { return receive(port, 1, queue, 30).empty(); }

uint16_t send(KernelPort& port, const Frame& f) {
  PktPtr p = to_mbuf(f, pools().buffers());
  rte_mbuf* m = p.release();
  const uint16_t n = port.tx_burst(0, &m, 1);
  if (n == 0) PktPtr(m).reset();
  return n;
}

uint64_t verdict(const rte_mbuf& m) { return m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK; }

// As a sender leaves it that lets hardware compute checksums: the pseudo-header's sum in the field.
Bytes with_partial_sum(const Bytes& frame, size_t field) {
  const Decoded d = decode(frame);
  uint64_t sum = pseudo_header_sum(d.version, d.src, d.dst, d.proto, d.l4.size());
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  Bytes b = frame;
  b[d.l2_len + d.l3_len + field] = static_cast<uint8_t>(sum >> 8);
  b[d.l2_len + d.l3_len + field + 1] = static_cast<uint8_t>(sum);
  return b;
}

VnetHeader partial(const Decoded& d, uint16_t field, uint8_t gso_type = 0, uint16_t gso_size = 0) {
  VnetHeader h;
  h.flags = VnetHeader::kNeedsChecksum;
  h.gso_type = gso_type;
  h.gso_size = gso_size;
  h.csum_start = static_cast<uint16_t>(d.l2_len + d.l3_len);
  h.csum_offset = field;
  h.hdr_len = static_cast<uint16_t>(h.csum_start + 20);
  return h;
}

}  // namespace

TEST_CASE("KernelPort: frames of all sizes arrive and leave byte for byte", "[root]") {
  NoLeak guard;
  Net net;
  auto port = open_port();
  Peer peer("px1", false);
  for (size_t payload : {0u, 1u, 100u, 1460u, 1994u, 1995u, 2048u, 8946u, 8960u}) {
    const Frame f = tcp4().seq(77).data(payload).build();
    peer.send(f.bytes);
    const auto got = receive(*port, 1);
    REQUIRE(got.size() == 1);
    CHECK(to_bytes(*got[0]) == f.bytes);
    REQUIRE(send(*port, f) == 1);
    CHECK(peer.receive() == f.bytes);
  }
  const pxio::PortStats s = port->stats();
  CHECK(s.rx_pkts == 9);
  CHECK(s.tx_pkts == 9);
  CHECK(s.tx_bytes == s.rx_bytes);
}

TEST_CASE("KernelPort: a packet in 64 buffers leaves as one frame", "[root]") {
  NoLeak guard;
  Net net;
  auto port = open_port();
  Peer peer("px1", false);
  Frame f = tcp4().data(8960).build();
  for (uint32_t at = 13; f.cuts.size() < 63; at += 139) f.cuts.push_back(at);
  CHECK(port->max_tx_segs() >= 64);
  REQUIRE(send(*port, f) == 1);
  CHECK(peer.receive() == f.bytes);
}

TEST_CASE("KernelPort: fragments aren't reassembled", "[root]") {
  NoLeak guard;
  Net net;
  for (uint16_t queues : {1, 4}) {
    auto port = open_port(9000, queues);
    Peer peer("px1", false);
    Lower first;
    first.df = false;
    first.mf = true;
    first.id = 7;
    Lower second = first;
    second.mf = false;
    second.frag_offset = 185;
    const Bytes a = ip_frame(first, 17, Bytes(1480, 1)), b = ip_frame(second, 17, Bytes(500, 2));
    peer.send(a);
    peer.send(b);
    std::vector<Bytes> got;
    for (uint16_t q = 0; q < queues; ++q)
      for (const PktPtr& p : receive(*port, 2, q, 100)) got.push_back(to_bytes(*p));
    CHECK(got == std::vector<Bytes>{a, b});
    REQUIRE(send(*port, Frame{a}) == 1);
    CHECK(peer.receive() == a);
  }
}

TEST_CASE("KernelPort: VLAN tags keep their place and type", "[root]") {
  NoLeak guard;
  Net net;
  auto port = open_port();
  Peer peer("px1", false);
  const std::vector<Frame> frames{
      tcp4().vlan(0x2005).data(100).build(), tcp4().vlan(5, 0x88a8).vlan(6).data(1460).build(),
      tcp6().vlan(0, 0x8100).data(8900).build(), tcp4().vlan(9, 0x9100).vlan(6).data(10).build()};
  for (const Frame& f : frames) {
    peer.send(f.bytes);
    const auto got = receive(*port, 1);
    REQUIRE(got.size() == 1);
    CHECK(to_hex(to_bytes(*got[0])) == to_hex(f.bytes));
    REQUIRE(send(*port, f) == 1);
    CHECK(to_hex(peer.receive()) == to_hex(f.bytes));
  }
}

TEST_CASE("KernelPort: a checksum left to hardware is completed", "[root]") {
  NoLeak guard;
  Net net;
  auto port = open_port();
  Peer peer("px1", true);
  for (const Frame& f : {tcp4().data(1001).build(), tcp6().data(8000).build(),
                         tcp4().vlan(3).data(3001).build(), udp(Lower{}, 1, 2, 77)}) {
    const Decoded d = decode(f.bytes);
    const uint16_t field = d.proto == 17 ? 6 : 16;
    const Bytes sent = with_partial_sum(f.bytes, field);
    REQUIRE(sent != f.bytes);
    peer.send(sent, partial(d, field));
    const auto got = receive(*port, 1);
    REQUIRE(got.size() == 1);
    CHECK(to_hex(to_bytes(*got[0])) == to_hex(f.bytes));
    CHECK(verdict(*got[0]) == RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  }
  // SCTP has a CRC-32C, computed here by another program.
  Bytes sctp(20, 0);
  sctp[1] = 9, sctp[3] = 9, sctp[12] = 1;
  const Bytes want_crc = from_hex("b67e5f3c");
  const Bytes frame = ip_frame(Lower{}, 132, sctp);
  peer.send(frame, partial(decode(frame), 8));
  const auto got = receive(*port, 1);
  REQUIRE(got.size() == 1);
  const Bytes b = to_bytes(*got[0]);
  CHECK(Bytes(b.begin() + 42, b.begin() + 46) == want_crc);
}

TEST_CASE("KernelPort: what the kernel merged comes whole, with its segment size", "[root]") {
  NoLeak guard;
  Net net;
  auto port = open_port(1500);
  Peer peer("px1", true);
  struct Case {
    Frame frame;
    uint8_t type;
    uint16_t size;
  };
  for (const Case& c : {Case{tcp4().data(5 * 1448 + 7).build(), VnetHeader::kGsoTcp4, 1448},
                        Case{tcp4().data(65400).build(), VnetHeader::kGsoTcp4, 1460},
                        Case{tcp6().data(65000).build(), VnetHeader::kGsoTcp6, 1440},
                        Case{tcp4().vlan(7).add_flags(CWR).data(9000).build(),
                             VnetHeader::kGsoTcp4 | VnetHeader::kGsoEcn, 1448},
                        Case{udp(Lower{}, 1, 2, 10 * 1200), VnetHeader::kGsoUdp, 1200}}) {
    const Decoded d = decode(c.frame.bytes);
    const uint16_t field = d.proto == 17 ? 6 : 16;
    peer.send(with_partial_sum(c.frame.bytes, field), partial(d, field, c.type, c.size));
    const auto got = receive(*port, 1);
    REQUIRE(got.size() == 1);
    CHECK(to_bytes(*got[0]) == c.frame.bytes);
    CHECK((got[0]->ol_flags & RTE_MBUF_F_RX_LRO) != 0);
    CHECK(got[0]->tso_segsz == c.size);
    CHECK(verdict(*got[0]) == RTE_MBUF_F_RX_L4_CKSUM_GOOD);
  }
}

// As `ethtool -k` has it.
bool gro_is_on() {
  return std::system("ethtool -k px0 | grep -q '^generic-receive-offload: on'") == 0;
}
void set_gro(bool on) { run(std::string("ethtool -K px0 gro ") + (on ? "on" : "off")); }
const pxio::OffloadState& merging(const std::vector<pxio::OffloadState>& all) {
  for (const auto& o : all)
    if (std::string(o.name) == "lro") return o;
  FAIL("no lro");
  return all[0];
}

TEST_CASE("KernelPort: GRO is set at the interface as configured, and put back", "[root]") {
  NoLeak guard;
  Net net(1500);
  const bool before = GENERATE(false, true), wanted = GENERATE(false, true);
  set_gro(before);
  {
    auto port = KernelPort::open({.ifname = "px0", .mtu = 1500, .buffers = pools().buffers(), .lro = wanted});
    CHECK(gro_is_on() == wanted);
    auto offloads = port->offloads();
    CHECK(merging(offloads).used == wanted);
    CHECK_THAT(merging(offloads).how, Catch::Contains(wanted ? "GRO" : "off by configuration"));
    // Somebody else changes it: said as it is, and what would change it.
    set_gro(!wanted);
    offloads = port->offloads();
    CHECK(merging(offloads).used == !wanted);
    CHECK_THAT(merging(offloads).how, Catch::Contains(std::string("ethtool -K px0 gro ") + (wanted ? "on" : "off")));
    set_gro(wanted);
  }
  CHECK(gro_is_on() == before);
  set_gro(!before);
  { auto port = KernelPort::open({.ifname = "px0", .mtu = 1500, .buffers = pools().buffers(), .lro = before}); }
  CHECK(gro_is_on() == !before);
}

TEST_CASE("KernelPort: GRO of an interface made anew", "[root]") {
  NoLeak guard;
  std::optional<Net> net(std::in_place, 1500);
  auto port = open_port(1500);
  CHECK(gro_is_on());
  net.reset();
  net.emplace(1500);
  CHECK(!gro_is_on());
  port->restart();
  CHECK(gro_is_on());
  port.reset();
  CHECK(!gro_is_on());
}

TEST_CASE("KernelPort: the kernel merges a run of segments into one that says their size", "[root]") {
  NoLeak guard;
  Net net(9000);
  run("ethtool -K px1 tx off tso off gso off");
  auto port = open_port(1500);
  Peer peer("px1", true);
  const Decoded d = decode(tcp4().data(40 * 1448).build().bytes);
  // The peer's kernel cuts it to single frames before they cross.
  peer.send(with_partial_sum(d.frame, 16), partial(d, 16, VnetHeader::kGsoTcp4, 1448));
  size_t payload = 0, pkts = 0;
  while (payload < 40 * 1448) {
    const auto got = receive(*port, 1);
    REQUIRE(!got.empty());
    for (const PktPtr& p : got) {
      const Decoded g = decode(to_bytes(*p));
      CHECK(g.checksum_ok);
      if (g.payload.size() > 1448) CHECK(p->tso_segsz == 1448);
      payload += g.payload.size();
      ++pkts;
    }
  }
  CHECK(payload == 40 * 1448);
  CHECK(pkts <= 4);
}

TEST_CASE("KernelPort: TCP in a tunnel that passes through arrives as it was sent, GRO or not", "[root]") {
  NoLeak guard;
  Net net(1500);
  run("ethtool -K px1 tx off tso off gso off");  // else a veth doesn't merge
  auto port = open_port(1500);
  const uint8_t kind = GENERATE(uint8_t{4}, uint8_t{47});  // IP in IP, GRE
  Peer peer("px1", false);
  // What comes within two milliseconds is merged, as with a NIC that brings much at a time.
  run("d=$(mktemp -d) && mount -t sysfs none $d && echo 2000000 > $d/class/net/px0/gro_flush_timeout; r=$?; "
      "umount $d && rmdir $d && exit $r");
  std::vector<Bytes> sent;
  for (unsigned k = 0; k < 90; ++k) {
    const Bytes inner = tcp4().seq(1000 + k * 1000).id(static_cast<uint16_t>(100 + k)).data(1000).build().bytes;
    Bytes f(inner.begin(), inner.begin() + 14);
    Bytes ip{0x45, 0, 0, 0, 0, static_cast<uint8_t>(k), 0x40, 0, 60, kind, 0, 0, 192, 0, 2, 1, 192, 0, 2, 9};
    if (kind == 47) ip.insert(ip.end(), {0, 0, 8, 0});
    const size_t len = ip.size() + inner.size() - 14;
    ip[2] = static_cast<uint8_t>(len >> 8);
    ip[3] = static_cast<uint8_t>(len);
    pxio::set_ipv4_checksum(*reinterpret_cast<pxio::Ipv4Header*>(ip.data()));
    f.insert(f.end(), ip.begin(), ip.end());
    f.insert(f.end(), inner.begin() + 14, inner.end());
    sent.push_back(f);
  }
  for (const Bytes& f : sent) peer.send(f);
  std::vector<Bytes> got;
  for (const PktPtr& p : receive(*port, sent.size())) got.push_back(to_bytes(*p));
  CHECK(got == sent);
  CHECK(port->stats().rx_errors == 0);
  CHECK(port->stats().rx_pkts == sent.size());
}

TEST_CASE("KernelPort: a packet marked as merged leaves as its segments", "[root]") {
  NoLeak guard;
  Net net(1500);
  run("ethtool -K px0 tx off tso off gso off tx-udp-segmentation off");
  auto port = open_port(1500);
  Peer peer("px1", false);
  const Tcp whole = tcp4().seq(1000).data(3 * 1448 + 100).add_flags(PSH);
  // The verdict GOOD, or none: then the checksum's error must show in every segment.
  for (const bool good : {true, false}) {
    for (const uint16_t damage : {0, 1}) {
      if (good && damage != 0) continue;
      const uint64_t mark = RTE_MBUF_F_RX_LRO | (good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : 0);
      Tcp t = whole;
      if (damage != 0) t.damage(damage);
      Frame f = t.rx(mark, 1448);
      f.cuts = {66, 2001, 4000};
      REQUIRE(send(*port, f) == 1);
      Bytes payload;
      for (int i = 0; i < 4; ++i) {
        const Decoded d = decode(peer.receive());
        REQUIRE(d.tcp);
        CHECK(d.ip_ok);
        CHECK(d.checksum_ok == (damage == 0));
        CHECK(d.seq == 1000 + payload.size());
        payload.insert(payload.end(), d.payload.begin(), d.payload.end());
      }
      CHECK(payload == decode(f.bytes).payload);
    }
  }
  Frame u = udp(Lower{}, 5, 6, 2 * 600 + 1);
  u.ol_flags = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
  u.segsz = 600;
  REQUIRE(send(*port, u) == 1);
  size_t bytes = 0;
  for (size_t len : {600u, 600u, 1u}) {
    const Decoded d = decode(peer.receive());
    CHECK(d.proto == 17);
    CHECK(d.l4.size() == 8 + len);
    CHECK(d.checksum_ok);
    bytes += len;
  }
  CHECK(bytes == 1201);
  // What merging made, or left together, is no longer than the MTU and stays whole.
  const Frame small = tcp4().data(1400).rx(RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_GOOD, 700);
  REQUIRE(send(*port, small) == 1);
  CHECK(peer.receive() == small.bytes);
  CHECK(peer.receive(30).empty());
}

TEST_CASE("KernelPort: neither its own frames nor the host's come back", "[root]") {
  NoLeak guard;
  Net net;
  for (uint16_t queues : {1, 2}) {
    auto port = open_port(9000, queues);
    Peer host("px0", false);
    REQUIRE(send(*port, tcp4().data(10)) == 1);
    host.send(tcp4().data(20).build().bytes);
    for (uint16_t q = 0; q < queues; ++q) CHECK(silent(*port, q));
    CHECK(port->stats().rx_pkts == 0);
  }
}

TEST_CASE("KernelPort: several queues see each frame once, both directions on one queue", "[root]") {
  NoLeak guard;
  Net net;
  constexpr uint16_t kQueues = 4;
  auto a = open_port(9000, kQueues), b = open_port(9000, kQueues, pools().buffers(), "px1");
  Peer at_b("px1", false), at_a("px0", false);
  int used = 0;
  for (uint16_t flow = 0; flow < 40; ++flow) {
    Tcp there = tcp4().data(1000), back = tcp4().data(10);
    there.sport = static_cast<uint16_t>(1000 + flow);
    std::swap(back.lower.src, back.lower.dst);
    back.sport = there.dport;
    back.dport = there.sport;
    at_b.send(there.build().bytes);
    at_a.send(back.build().bytes);
    int queue_there = -1, queue_back = -1, n_there = 0, n_back = 0;
    for (uint16_t q = 0; q < kQueues; ++q) {
      for (const PktPtr& p : receive(*a, 1, q, 3)) {
        queue_there = q, ++n_there;
        CHECK(p->pkt_len > 1000);
      }
      for (const PktPtr& p : receive(*b, 1, q, 3)) {
        queue_back = q, ++n_back;
        CHECK(p->pkt_len < 1000);
      }
    }
    CHECK(n_there == 1);
    CHECK(n_back == 1);
    CHECK(queue_there == queue_back);
    used |= 1 << queue_there;
  }
  CHECK(used == 15);
}

TEST_CASE("KernelPort: what the interface refuses is dropped and counted, the next goes on", "[root]") {
  NoLeak guard;
  Net net(1500);
  auto port = open_port(1500);
  Peer peer("px1", false);
  rte_mbuf* m[3];
  const Frame first = tcp4().data(100), big = tcp4().data(3000), last = tcp4().data(200);
  m[0] = to_mbuf(first, pools().buffers()).release();
  m[1] = to_mbuf(big, pools().buffers()).release();
  m[2] = to_mbuf(last, pools().buffers()).release();
  CHECK(port->tx_burst(0, m, 3) == 3);
  CHECK(peer.receive() == first.bytes);
  CHECK(peer.receive() == last.bytes);
  CHECK(port->stats().tx_too_big == 1);
  CHECK(port->stats().tx_pkts == 2);
}

// The kernel says "no buffer space" of a packet that the other end of a veth doesn't take.
TEST_CASE("KernelPort: a packet that the far end refuses doesn't keep back those behind it", "[root]") {
  NoLeak guard;
  Net net(9000);
  run("ip link set px1 mtu 1500");
  auto port = open_port(9000);
  Peer peer("px1", false);
  const Frame big = tcp4().data(8000), small = tcp4().data(200);
  {
    pxio::TxBuffer tx(*port, 0);
    for (int i = 0; i < 2; ++i) {
      tx.push(to_mbuf(big, pools().buffers()));
      tx.push(to_mbuf(small, pools().buffers()));
    }
    tx.flush();
    CHECK(tx.dropped_full() == 0);
  }
  for (int i = 0; i < 2; ++i) CHECK(peer.receive() == small.bytes);
  CHECK(port->stats().tx_errors == 2);
}

TEST_CASE("KernelPort: an interface that goes down and comes up again", "[root]") {
  NoLeak guard;
  Net net;
  auto port = open_port();
  Peer peer("px1", false);
  run("ip link set px0 down");
  CHECK(silent(*port));
  CHECK(send(*port, tcp4().data(10)) == 1);
  CHECK(port->stats().tx_down == 1);
  CHECK(silent(*port));
  pollfd p{port->wait_fd(0), POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);  // a worker that sleeps on it doesn't spin
  run("ip link set px0 up");
  const Bytes f = tcp4().data(50).build().bytes;
  Net::wait_up();
  peer.receive(0);
  peer.send(f);
  const auto got = receive(*port, 1);
  REQUIRE(got.size() == 1);
  CHECK(to_bytes(*got[0]) == f);
  CHECK(send(*port, Frame{f}) == 1);
  CHECK(peer.receive() == f);
}

TEST_CASE("KernelPort: an interface that is deleted and made again", "[root]") {
  NoLeak guard;
  const uint16_t queues = GENERATE(uint16_t{1}, uint16_t{2});
  std::optional<Net> net(std::in_place);
  auto port = open_port(9000, queues);
  CHECK(port->health() == pxio::Health::kGood);
  net.reset();
  CHECK(port->health() == pxio::Health::kAway);
  CHECK(silent(*port));
  run("ip link add px0 mtu 1500 type veth peer name px1 mtu 9000");
  CHECK(port->health() == pxio::Health::kAway);  // down
  run("ip link set px0 up");
  CHECK(port->health() == pxio::Health::kAway);  // too small
  run("ip link del px0");
  net.emplace();
  CHECK(port->health() == pxio::Health::kReset);
  port->restart();
  CHECK(port->health() == pxio::Health::kGood);
  Peer peer("px1", false);
  const Bytes f = tcp4().data(8000).build().bytes;
  for (int k = 0; k < 40; ++k) {
    peer.send(f);
    size_t came = 0;
    for (int tries = 0; came == 0 && tries < 1000; ++tries)
      for (uint16_t q = 0; q < queues; ++q) came += receive(*port, 1, q, 1).size();
    REQUIRE(came == 1);
  }
  CHECK(send(*port, Frame{f}) == 1);
  CHECK(peer.receive() == f);
  CHECK(port->stats().rx_pkts == 40);
}

TEST_CASE("KernelPort: out of buffers it loses what it must, and recovers", "[root]") {
  NoLeak guard;
  Net net;
  const uint32_t large = KernelPort::large_posted(pools().buffers());
  pxio::BufferPools few(KernelPort::small_posted() + 8, large);
  {
    auto port = open_port(9000, 1, few.buffers());
    Peer peer("px1", true);
    const Bytes merged = tcp4().data(60000).build().bytes;
    const auto send_merged = [&] {
      const Decoded d = decode(merged);
      peer.send(with_partial_sum(merged, 16), partial(d, 16, VnetHeader::kGsoTcp4, 1448));
    };
    send_merged();
    auto held = receive(*port, 1);
    REQUIRE(held.size() == 1);
    send_merged();  // the slot has no large buffers now
    CHECK(silent(*port));
    CHECK(port->stats().rx_no_buffer == 1);
    const Bytes small = tcp4().data(100).build().bytes;
    peer.send(small);  // but ordinary frames pass
    CHECK(receive(*port, 1).size() == 1);
    held.clear();
    send_merged();
    CHECK(receive(*port, 1).size() == 1);

    for (int i = 0; i < 60; ++i) peer.send(small);
    held = receive(*port, 60, 0, 50);
    CHECK(held.size() == 40);  // all there are; the others wait in the socket
    held.clear();
    held = receive(*port, 20);
    CHECK(held.size() == 20);
    for (const PktPtr& p : held) CHECK(to_bytes(*p) == small);
  }
  CHECK(few.in_use() == 0);
}

TEST_CASE("KernelPort: what can't be opened says why", "[root]") {
  NoLeak guard;
  Net net(1500);
  const auto message = [](const char* name, uint16_t mtu, uint16_t queues = 1) -> std::string {
    try {
      open_port(mtu, queues, pools().buffers(), name);
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "opened";
  };
  using Catch::Contains;
  CHECK_THAT(message("nosuch", 1500), Contains("interface nosuch: no such interface") && Contains("px0"));
  CHECK_THAT(message("px0", 9000), Contains("its MTU is 1500") && Contains("ip link set px0 mtu 9000"));
  CHECK_THAT(message("lo", 1500), Contains("not an Ethernet interface"));
  CHECK_THAT(message("px0", 1500, 0), Contains("queues"));
  run("ip link set px0 down");
  CHECK_THAT(message("px0", 1500), Contains("it is down"));
}
