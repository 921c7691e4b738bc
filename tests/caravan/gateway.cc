// SPDX-License-Identifier: BSD-3-Clause
// A gateway for tests of the endpoint, made of libcaravan alone: forwards frames between two
// interfaces, bundles towards hosts that have asked, takes caravans of theirs apart. At SIGTERM it
// prints what it did as JSON.
//   caravan_gateway INSIDE OUTSIDE [--lose N] [--swap N]    every Nth datagram from outside is
//   lost, or
//                                                           leaves behind the next one
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>

#include "caravan/core/batcher.h"
#include "caravan/core/registrar.h"
#include "caravan/core/regroup.h"

using namespace caravan;

namespace {

volatile std::sig_atomic_t stopping = 0;
constexpr size_t kLink = 14;

int open_port(const char* name) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(0x0003));
  sockaddr_ll a{};
  a.sll_family = AF_PACKET;
  a.sll_protocol = htons(0x0003);
  a.sll_ifindex = static_cast<int>(if_nametoindex(name));
  const int one = 1, room = 16 << 20;
  packet_mreq promiscuous{};
  promiscuous.mr_ifindex = a.sll_ifindex;
  promiscuous.mr_type = PACKET_MR_PROMISC;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) != 0) {
    std::fprintf(stderr, "%s: %s\n", name, std::strerror(errno));
    std::exit(1);
  }
  return fd;
}

Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

uint64_t random64() {
  uint64_t v = 0;
  if (getrandom(&v, sizeof v, 0) != sizeof v) std::abort();
  return v | 1;
}

class Gateway {
 public:
  Gateway(const char* inside, const char* outside, unsigned lose, unsigned swap)
      : in_(open_port(inside)),
        out_(open_port(outside)),
        lose_(lose),
        swap_(swap),
        hosts_(64, secret_),
        registrar_(hosts_, {.largest = 9000, .secret = secret_, .session = random64()}),
        batcher_(
            kDefaultPort, [this](const UdpPacket& p) { return hosts_.size_of(p.dst(), now()); },
            Batcher::Lone::kCaravan),
        rooms_(64) {
    for (auto& r : rooms_) r.resize(65536);
  }
  void run() {
    pollfd p[2] = {{in_, POLLIN, 0}, {out_, POLLIN, 0}};
    while (stopping == 0) {
      poll(p, 2, 100);
      inbound();
      outbound();
    }
    std::printf(
        "{\"caravans_to_inside\": %lu, \"datagrams_to_inside\": %lu, \"plain_to_inside\": %lu, "
        "\"caravans_from_inside\": %lu, \"datagrams_from_inside\": %lu, \"plain_from_inside\": "
        "%lu, "
        "\"refused\": %lu, \"lost\": %lu}\n",
        caravans_in_, datagrams_in_, plain_in_, caravans_out_, datagrams_out_, plain_out_, refused_,
        lost_);
  }

 private:
  static size_t receive(int fd, std::vector<uint8_t>& room) {
    const ssize_t n = recv(fd, room.data(), room.size(), 0);
    return n > static_cast<ssize_t>(kLink) ? static_cast<size_t>(n) : 0;
  }
  static void send(int fd, Bytes frame) {
    while (::send(fd, frame.data(), frame.size(), 0) < 0 && errno == EAGAIN) usleep(50);
  }
  void send_packet(int fd, const uint8_t* link, Bytes packet) {
    frame_.assign(link, link + kLink);
    frame_.insert(frame_.end(), packet.begin(), packet.end());
    send(fd, frame_);
  }

  void inbound() {
    std::vector<Bytes> batch;
    for (auto& room : rooms_) {
      const size_t n = receive(out_, room);
      if (n == 0) break;
      const Bytes frame = Bytes(room).first(n);
      UdpPacket u;
      if (!parse_udp(frame.subspan(kLink), u)) {
        batch.push_back(frame);
        continue;
      }
      ++seen_;
      if (lose_ != 0 && seen_ % lose_ == 0) {
        ++lost_;
        continue;
      }
      batch.push_back(frame);
      if (swap_ != 0 && seen_ % swap_ == 0 && batch.size() > 1)
        std::swap(batch[batch.size() - 1], batch[batch.size() - 2]);
    }
    std::map<Address, const uint8_t*, bool (*)(const Address&, const Address&)> links(
        [](const Address& a, const Address& b) {
          return std::pair(a.family, a.bytes) < std::pair(b.family, b.bytes);
        });
    for (const Bytes f : batch) {
      UdpPacket u;
      if (parse_udp(f.subspan(kLink), u)) links[u.dst()] = f.data();
      batcher_.add(f.subspan(kLink));
    }
    for (const auto& p : batcher_.finish()) {
      UdpPacket u;
      if (p.datagrams == 0) {
        ++plain_in_;
        send(in_, {p.bytes.data() - kLink, p.bytes.size() + kLink});
      } else if (parse_udp(p.bytes, u)) {
        ++caravans_in_;
        datagrams_in_ += p.datagrams;
        send_packet(in_, links.at(u.dst()), p.bytes);
      }
    }
    batcher_.clear();
  }

  void outbound() {
    for (int i = 0; i < 64; ++i) {
      const size_t n = receive(in_, rooms_[0]);
      if (n == 0) return;
      uint8_t* f = rooms_[0].data();
      UdpPacket u;
      if (!parse_udp({f + kLink, n - kLink}, u) || u.dst_port != kDefaultPort) {
        plain_out_ += u.ip != nullptr;
        send(out_, {f, n});
        continue;
      }
      const Bytes payload = u.datagram.udp.subspan(kUdpBytes);
      if (type_of(payload) == Type::kHello) {
        answer(f, u, payload);
        continue;
      }
      Records records;
      const Refusal refusal = unbundle(payload, u.family, kDefaultPort, records);
      const int tos = refusal == Refusal::kNone ? tos_of(u.tos, records.ecn) : -1;
      if (tos < 0) {
        ++refused_;
        continue;
      }
      ++caravans_out_;
      datagrams_out_ += records.count;
      for (unsigned k = 0; k < records.count; ++k) {
        std::vector<uint8_t> d(ip_bytes(u.family));
        write_ip_header(u.ip, u.family, records.at[k], static_cast<uint8_t>(tos), d.data());
        const Bytes udp = datagram_of(payload, records.at[k]).udp;
        d.insert(d.end(), udp.begin(), udp.end());
        send_packet(out_, f, d);
      }
    }
  }

  void answer(uint8_t* f, const UdpPacket& u, Bytes payload) {
    std::array<uint8_t, kHelloBytes> out;
    if (!registrar_.answer(u.src(), payload, now(), out)) return;
    uint8_t* ip = f + kLink;
    const size_t address = u.family == Family::kIpv4 ? 4 : 16;
    uint8_t* src = ip + (u.family == Family::kIpv4 ? 12 : 8);
    std::swap_ranges(f, f + 6, f + 6);
    std::swap_ranges(src, src + address, src + address);
    std::memcpy(const_cast<uint8_t*>(payload.data()), out.data(), out.size());
    const size_t whole = ip_bytes(u.family) + kUdpBytes + out.size();
    set_udp_checksum({ip, whole}, u.family);
    send(in_, {f, kLink + whole});
  }

  int in_, out_;
  unsigned lose_, swap_;
  Secret secret_{random64(), random64()};
  HostTable hosts_;
  Registrar registrar_;
  Batcher batcher_;
  std::vector<std::vector<uint8_t>> rooms_;
  std::vector<uint8_t> frame_;
  uint64_t seen_ = 0, lost_ = 0, caravans_in_ = 0, datagrams_in_ = 0, plain_in_ = 0,
           caravans_out_ = 0, datagrams_out_ = 0, plain_out_ = 0, refused_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  unsigned lose = 0, swap = 0;
  for (int i = 3; i + 1 < argc; i += 2)
    (std::string(argv[i]) == "--lose" ? lose : swap) =
        static_cast<unsigned>(std::atoi(argv[i + 1]));
  if (argc < 3) return 2;
  std::signal(SIGTERM, [](int) { stopping = 1; });
  Gateway g(argv[1], argv[2], lose, swap);
  std::printf("ready\n");
  std::fflush(stdout);
  g.run();
  return 0;
}
