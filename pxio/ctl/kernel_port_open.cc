// SPDX-License-Identifier: BSD-3-Clause
// Opening of KernelPort, and what its control thread reads.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "pxio/ctl/receive_merging.h"
#include "pxio/dp/kernel_port.h"

namespace pxio {
namespace {

// Bytes that may wait in a socket: some ms at 10 Gb/s.
constexpr int kSocketBuffer = 16 << 20;

[[noreturn]] void fail(const std::string& ifname, const std::string& what) {
  throw std::runtime_error(fmt::format("interface {}: {}", ifname, what));
}
[[noreturn]] void fail_errno(const std::string& ifname, const char* what) {
  fail(ifname, fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string interfaces() {
  std::string names;
  struct if_nameindex* all = if_nameindex();
  if (all == nullptr) return "none";
  for (const struct if_nameindex* i = all; i->if_index != 0; ++i) {
    if (std::strcmp(i->if_name, "lo") != 0) names += (names.empty() ? "" : ", ") + std::string(i->if_name);
  }
  if_freenameindex(all);
  return names.empty() ? "none" : names;
}

int open_socket(const std::string& ifname) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0) return fd;
  if (errno == EPERM || errno == EACCES)
    fail(ifname, "no right to open it: run as root, or give the program CAP_NET_RAW");
  fail_errno(ifname, "no packet socket");
}

ifreq ask(int fd, const std::string& ifname, unsigned long what, const char* text) {
  ifreq r{};
  std::memcpy(r.ifr_name, ifname.data(), ifname.size());
  if (ioctl(fd, what, &r) != 0) fail_errno(ifname, text);
  return r;
}

void check_interface(int fd, const KernelPortOptions& o) {
  if (ask(fd, o.ifname, SIOCGIFHWADDR, "no hardware address").ifr_hwaddr.sa_family != ARPHRD_ETHER)
    fail(o.ifname, "not an Ethernet interface");
  if ((ask(fd, o.ifname, SIOCGIFFLAGS, "no flags").ifr_flags & IFF_UP) == 0)
    fail(o.ifname, fmt::format("it is down; 'ip link set {} up' starts it", o.ifname));
  const int mtu = ask(fd, o.ifname, SIOCGIFMTU, "no MTU").ifr_mtu;
  if (mtu < o.mtu) {
    fail(o.ifname, fmt::format("its MTU is {}, less than the {} configured; 'ip link set {} mtu {}' raises it",
                               mtu, o.mtu, o.ifname, o.mtu));
  }
}

bool try_option(int fd, int level, int name, int value) {
  return setsockopt(fd, level, name, &value, sizeof value) == 0;
}
void set_option(const std::string& ifname, int fd, int name, const char* text) {
  if (!try_option(fd, SOL_PACKET, name, 1)) fail_errno(ifname, text);
}

// Nothing arrives until the filter is taken away: before all sockets share the traffic each would see
// all of it.
void block(const std::string& ifname, int fd) {
  sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
  sock_fprog program{1, &none};
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0)
    fail_errno(ifname, "no socket filter");
}

void prepare(const std::string& ifname, int fd, int ifindex) {
  set_option(ifname, fd, PACKET_VNET_HDR, "no virtio-net headers");
  set_option(ifname, fd, PACKET_AUXDATA, "no auxiliary data");
  // Older kernels don't know it; rx looks at the packet's type as well.
  try_option(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  // Beyond the system's limit where CAP_NET_ADMIN allows.
  if (!try_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBuffer))
    try_option(fd, SOL_SOCKET, SO_RCVBUF, kSocketBuffer);
  if (!try_option(fd, SOL_SOCKET, SO_SNDBUFFORCE, kSocketBuffer))
    try_option(fd, SOL_SOCKET, SO_SNDBUF, kSocketBuffer);
  block(ifname, fd);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = ifindex;
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    fail_errno(ifname, "no packets from it");
  packet_mreq all{};
  all.mr_ifindex = ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
    fail_errno(ifname, "no promiscuous mode");
}

// Both directions of a flow have the same hash, so queue i of either port sees the same flows. Without
// the flag that would reassemble fragments. Returns the group.
int join(const std::string& ifname, int fd, int group) {
  const bool first = group < 0;
  const unsigned unique = first ? PACKET_FANOUT_FLAG_UNIQUEID : 0;
#ifdef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
  constexpr unsigned kIgnore = PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
#else
  constexpr unsigned kIgnore = 0x4000;
#endif
  const auto with = [&](unsigned flags) {
    const unsigned type = PACKET_FANOUT_HASH | unique | flags;
    return try_option(fd, SOL_PACKET, PACKET_FANOUT, static_cast<int>((first ? 0u : static_cast<unsigned>(group)) | type << 16));
  };
  if (!with(kIgnore) && !with(0)) fail_errno(ifname, "its traffic can't be shared by several queues");
  if (!first) return group;
  int value = 0;
  socklen_t size = sizeof value;
  if (getsockopt(fd, SOL_PACKET, PACKET_FANOUT, &value, &size) != 0) fail_errno(ifname, "no fanout group");
  return value & 0xffff;
}

}  // namespace

KernelPort::KernelPort(const KernelPortOptions& options) : options_(options) {}
KernelPort::~KernelPort() = default;

std::unique_ptr<KernelPort> KernelPort::open(const KernelPortOptions& o) {
  if (o.ifname.empty() || o.ifname.size() >= IFNAMSIZ || if_nametoindex(o.ifname.c_str()) == 0)
    fail(o.ifname, fmt::format("no such interface (there are: {})", interfaces()));
  if (o.queues == 0 || o.queues > kMaxQueues)
    fail(o.ifname, fmt::format("{} queues asked for, 1 to {} are possible", o.queues, kMaxQueues));
  std::unique_ptr<KernelPort> port(new KernelPort(o));
  port->segmenting_ = {.able = o.tso, .knows_cwr = true, .max_buffers = kTxIovecs - 1};
  const uint32_t large = large_posted(o.buffers);
  for (uint16_t i = 0; i < o.queues; ++i) {
    port->queues_[i] = std::make_unique<Queue>();
    Queue& q = *port->queues_[i];
    ++port->n_queues_;
    q.buffers = o.buffers;
    q.mtu = o.mtu;
    q.want_tails = static_cast<uint16_t>(large / kBurst);
    if (q.refill(kBurst) != kBurst || q.lacking != 0) {
      fail(o.ifname, fmt::format("not enough buffers: {} queues need {} small and {} large ones for receiving",
                                 o.queues, o.queues * small_posted(), o.queues * large));
    }
  }
  port->attach();
  return port;
}

// Sockets for all queues, in the place of those that are there.
void KernelPort::attach() {
  const std::string& name = options_.ifname;
  const int ifindex = static_cast<int>(if_nametoindex(name.c_str()));
  std::vector<Fd> sockets;
  for (uint16_t i = 0; i < n_queues_; ++i) {
    sockets.emplace_back(open_socket(name));
    if (i == 0) check_interface(sockets[i].get(), options_);
    prepare(name, sockets[i].get(), ifindex);
  }
  merging_.reset();  // puts back, before it's looked at again
  merging_ = std::make_unique<ReceiveMerging>(name, options_.lro);
  int group = -1;
  for (uint16_t i = 0; i < n_queues_ && n_queues_ > 1; ++i) group = join(name, sockets[i].get(), group);
  for (uint16_t i = 0; i < n_queues_; ++i) {
    int none = 0;
    setsockopt(sockets[i].get(), SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none);
    queues_[i]->fd = std::move(sockets[i]);
  }
  ifindex_ = ifindex;
}

Health KernelPort::health() const noexcept {
  const auto index = static_cast<int>(if_nametoindex(options_.ifname.c_str()));
  if (index == ifindex_) return Health::kGood;
  if (index == 0) return Health::kAway;
  try {
    check_interface(queues_[0]->fd.get(), options_);
    return Health::kReset;
  } catch (const std::exception&) {
    return Health::kAway;  // not up yet, or not as large as it will be
  }
}

void KernelPort::restart() {
  stats();  // the last that the old sockets counted
  attach();
}

PortStats KernelPort::stats() {
  PortStats s;
  for (uint16_t i = 0; i < n_queues_; ++i) {
    Queue& q = *queues_[i];
    tpacket_stats k{};
    socklen_t size = sizeof k;
    if (getsockopt(q.fd.get(), SOL_PACKET, PACKET_STATISTICS, &k, &size) == 0) q.rx_dropped += k.tp_drops;
    s.rx_pkts += q.rx_pkts.get();
    s.rx_bytes += q.rx_bytes.get();
    s.tx_pkts += q.tx_pkts.get();
    s.tx_bytes += q.tx_bytes.get();
    s.rx_dropped += q.rx_dropped;
    s.rx_no_buffer += q.rx_no_buffer.get();
    s.rx_truncated += q.rx_truncated.get();
    s.rx_errors += q.rx_errors.get();
    s.tx_too_big += q.tx_too_big.get();
    s.tx_errors += q.tx_errors.get();
    s.tx_down += q.tx_down.get();
  }
  return s;
}

std::vector<OffloadState> KernelPort::offloads() const {
  return {merging_->state(),
          {"tso", segmenting_.able,
           segmenting_.able ? "the kernel's GSO, or TSO of the NIC behind it; packets of up to 64 KB"
                            : "off by configuration"},
          {"checksum", true, "verdicts and unfinished checksums of the kernel, both ways"},
          {"scatter", true, fmt::format("up to {} buffers a packet", kMaxTails + 1)},
          {"multi_segment", true, fmt::format("up to {} buffers a packet", kTxIovecs - 1)},
          {"rss", n_queues_ > 1,
           n_queues_ > 1 ? "the kernel's flow hash, the same for both directions" : "one queue"}};
}

}  // namespace pxio
