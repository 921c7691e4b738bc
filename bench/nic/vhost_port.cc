// SPDX-License-Identifier: BSD-3-Clause
#include "bench/nic/vhost_port.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_eth_vhost.h>
#include <rte_ethdev.h>
#include <rte_vhost.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "pxio/ctl/eal_log.h"

namespace softnic {
namespace {

constexpr uint16_t kDescriptors = 1024;
// VIRTIO_NET_F_GUEST_TSO4 and 6 (virtio 1.2, section 5.1.3): the driver takes merged packets.
constexpr uint64_t kGuestTso = 1u << 7 | 1u << 8;
constexpr pxio::Nanos kLookEvery = std::chrono::milliseconds(1);

[[noreturn]] void fail(const std::string& socket, const std::string& what) {
  throw std::runtime_error(fmt::format("socket {}: {}", socket, what));
}

void check(const std::string& socket, int rc, const char* what) {
  if (rc < 0) fail(socket, fmt::format("{}: {}", what, rte_strerror(-rc)));
}

sockaddr_un address_of(const std::string& socket) {
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  if (socket.empty() || socket.size() >= sizeof a.sun_path)
    fail(socket, fmt::format("a path of 1 to {} characters is wanted", sizeof a.sun_path - 1));
  if (socket.find(',') != std::string::npos) fail(socket, "the path can't have a comma");
  std::memcpy(a.sun_path, socket.data(), socket.size());
  return a;
}

// A socket that another NIC listens on isn't ours to take; one that a killed NIC left behind is.
void clear_place(const std::string& socket) {
  const sockaddr_un a = address_of(socket);
  struct stat there {};
  if (lstat(socket.c_str(), &there) == 0 && !S_ISSOCK(there.st_mode))
    fail(socket, "something that isn't a socket stands there; give another path");
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool taken = connect(fd, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
  const int why = errno;
  close(fd);
  if (taken) fail(socket, "another process listens there; give another path");
  if (why == ECONNREFUSED) {
    unlink(socket.c_str());
  } else if (why != ENOENT) {
    fail(socket, std::strerror(why));
  }
  const size_t slash = socket.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : socket.substr(0, slash + 1);
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    fail(socket, fmt::format("nothing can be made in {}: {}", folder, std::strerror(errno)));
}

}  // namespace

VhostPort::VhostPort(const std::string& name, const std::string& socket, uint16_t queues,
                     rte_mempool* pool)
    : socket_(socket), most_queues_(queues) {
  clear_place(socket);
  pxio::EalLog log;
  const std::string device = fmt::format("{},iface={},queues={},tso=1", name, socket, queues);
  if (rte_dev_probe(device.c_str()) < 0 || rte_eth_dev_get_port_by_name(name.c_str(), &id_) != 0)
    fail(socket, fmt::format("no vhost device: {}", log.reason()));
  try {
    rte_eth_dev_info info{};
    check(socket, rte_eth_dev_info_get(id_, &info), "no information");
    rte_eth_conf conf{};
    conf.rxmode.offloads =
        info.rx_offload_capa & (RTE_ETH_RX_OFFLOAD_TCP_CKSUM | RTE_ETH_RX_OFFLOAD_UDP_CKSUM);
    conf.txmode.offloads = info.tx_offload_capa;
    // Binds the socket.
    if (const int rc = rte_eth_dev_configure(id_, queues, queues, &conf); rc < 0)
      fail(socket, fmt::format("it can't be listened on: {}",
                               log.reason().empty() ? rte_strerror(-rc) : log.reason()));
    for (uint16_t q = 0; q < queues; ++q) {
      check(socket, rte_eth_rx_queue_setup(id_, q, kDescriptors, SOCKET_ID_ANY, nullptr, pool),
            "no queue");
      check(socket, rte_eth_tx_queue_setup(id_, q, kDescriptors, SOCKET_ID_ANY, nullptr),
            "no queue");
    }
    check(socket, rte_eth_dev_start(id_), "it doesn't start");
  } catch (...) {
    rte_eth_dev_close(id_);
    throw;
  }
}

VhostPort::~VhostPort() {
  pxio::EalLog quiet;
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(id_, &info) == 0;
  rte_eth_dev_stop(id_);
  rte_eth_dev_close(id_);
  if (known && info.device != nullptr) rte_dev_remove(info.device);
  unlink(socket_.c_str());
}

void VhostPort::refresh(pxio::Nanos now) {
  if (now - looked_ < kLookEvery && looked_ != pxio::Nanos(0)) return;
  looked_ = now;
  queues_ = 0;
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(id_, &link) != 0 || link.link_status != RTE_ETH_LINK_UP) return;
  const int vid = rte_eth_vhost_get_vid_from_port_id(id_);
  uint64_t features = 0;
  if (vid < 0 || rte_vhost_get_negotiated_features(vid, &features) != 0) return;
  queues_ = std::min<uint16_t>(most_queues_, rte_vhost_get_vring_num(vid) / 2);
  lro_ = (features & kGuestTso) == kGuestTso;
}

uint16_t VhostPort::receive(uint16_t queue, rte_mbuf** pkts, uint16_t n) {
  return rte_eth_rx_burst(id_, queue, pkts, n);
}

uint16_t VhostPort::send(uint16_t queue, rte_mbuf** pkts, uint16_t n) {
  return rte_eth_tx_burst(id_, queue, pkts, n);
}

}  // namespace softnic
