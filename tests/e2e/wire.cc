// SPDX-License-Identifier: BSD-3-Clause
// A wire with faults: carries frames between two interfaces, loses, doubles and reorders some, and
// tags what goes from the first to the second, for machines whose kernel has no netem or VLANs.
// Ends on SIGTERM and prints what it did as JSON.
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <arpa/inet.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Frame = std::vector<uint8_t>;

std::atomic<bool> ending = false;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "wire: %s\n", what.c_str());
  std::exit(2);
}

// In percent of the frames that are large enough; handshakes can be spared with `min_size`.
struct Faults {
  double loss = 0, dup = 0, reorder = 0;
  size_t min_size = 0;
};

// VLAN tags, the outer one first. Receiving, the kernel takes the outer tag out of the frame
// itself.
using Tags = std::vector<uint16_t>;

Frame with_tags(Frame frame, const Tags& tags) {
  for (size_t i = tags.size(); i-- > 0;) {
    const uint16_t type = tags.size() > 1 && i == 0 ? 0x88a8 : 0x8100;
    const std::array<uint8_t, 4> tag{static_cast<uint8_t>(type >> 8), static_cast<uint8_t>(type),
                                     static_cast<uint8_t>(tags[i] >> 8),
                                     static_cast<uint8_t>(tags[i])};
    frame.insert(frame.begin() + 12, tag.begin(), tag.end());
  }
  return frame;
}

Frame without_inner_tags(Frame frame, const Tags& tags) {
  for (size_t i = 1; i < tags.size(); ++i)
    if (frame.size() >= 18 && frame[12] == 0x81 && frame[13] == 0)
      frame.erase(frame.begin() + 12, frame.begin() + 16);
  return frame;
}

struct Done {
  uint64_t carried = 0, lost = 0, doubled = 0, reordered = 0, refused = 0;
};

int open_interface(const char* name) {
  const int fd = socket(AF_PACKET, SOCK_RAW, 0);
  if (fd < 0) fail("no right to open raw sockets");
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = static_cast<int>(if_nametoindex(name));
  if (at.sll_ifindex == 0) fail(std::string("no interface ") + name);
  const int on = 1, room = 64 << 20;
  setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
  packet_mreq all{};
  all.mr_ifindex = at.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all);
  if (bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0)
    fail(std::string("can't bind to ") + name);
  return fd;
}

// One direction: what comes in on one interface leaves on the other.
class Lane {
 public:
  using Edit = Frame (*)(Frame, const Tags&);
  Lane(int from, int to, const Faults& faults, Edit edit, const Tags& tags, std::mt19937& dice,
       Done& done)
      : from_(from), to_(to), faults_(faults), edit_(edit), tags_(tags), dice_(dice), done_(done) {}

  int from() const { return from_; }

  void carry() {
    static std::array<uint8_t, 70000> buffer;
    for (int i = 0; i < 64; ++i) {
      const ssize_t n = recv(from_, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n <= 0) return;
      take(edit_(Frame(buffer.begin(), buffer.begin() + n), tags_));
    }
  }

  // Late frames leave after some others, or at the latest when this time is over.
  void release(Clock::time_point now) {
    while (!late_.empty() && (late_.front().after == 0 || late_.front().until <= now)) {
      send_out(late_.front().frame);
      late_.pop_front();
    }
  }
  bool has_late() const { return !late_.empty(); }

 private:
  struct Late {
    Frame frame;
    int after;
    Clock::time_point until;
  };

  bool happens(double percent) {
    return percent > 0 && std::uniform_real_distribution<>(0, 100)(dice_) < percent;
  }

  void take(Frame frame) {
    const bool spared = frame.size() < faults_.min_size;
    if (!spared && happens(faults_.loss)) {
      ++done_.lost;
      return;
    }
    if (!spared && happens(faults_.reorder)) {
      ++done_.reordered;
      const int after = std::uniform_int_distribution<>(1, 5)(dice_);
      late_.push_back({std::move(frame), after, Clock::now() + std::chrono::milliseconds(2)});
      return;
    }
    send_out(frame);
    if (!spared && happens(faults_.dup)) {
      ++done_.doubled;
      send_out(frame);
    }
    for (Late& l : late_)
      if (l.after > 0) --l.after;
    release(Clock::now());
  }

  void send_out(const Frame& frame) {
    if (send(to_, frame.data(), frame.size(), 0) < 0)
      ++done_.refused;
    else
      ++done_.carried;
  }

  int from_, to_;
  const Faults& faults_;
  Edit edit_;
  const Tags& tags_;
  std::mt19937& dice_;
  Done& done_;
  std::deque<Late> late_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3)
    fail(
        "usage: wire IF_A IF_B [--loss PCT] [--dup PCT] [--reorder PCT] [--min-size B] [--seed N] "
        "[--tag VLAN]...");
  Faults faults;
  Tags tags;
  unsigned seed = 1;
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i];
    const double value = std::atof(argv[i + 1]);
    if (key == "--loss")
      faults.loss = value;
    else if (key == "--dup")
      faults.dup = value;
    else if (key == "--reorder")
      faults.reorder = value;
    else if (key == "--min-size")
      faults.min_size = static_cast<size_t>(value);
    else if (key == "--tag")
      tags.push_back(static_cast<uint16_t>(value));
    else if (key == "--seed")
      seed = static_cast<unsigned>(value);
    else
      fail("unknown option " + std::string(key));
  }
  std::signal(SIGTERM, [](int) { ending = true; });
  std::mt19937 dice(seed);
  Done done;
  const int a = open_interface(argv[1]), b = open_interface(argv[2]);
  std::array lanes{Lane(a, b, faults, with_tags, tags, dice, done),
                   Lane(b, a, faults, without_inner_tags, tags, dice, done)};
  std::puts("ready");
  std::fflush(stdout);
  while (!ending) {
    std::array<pollfd, 2> fds{{{lanes[0].from(), POLLIN, 0}, {lanes[1].from(), POLLIN, 0}}};
    const bool late = lanes[0].has_late() || lanes[1].has_late();
    poll(fds.data(), fds.size(), late ? 1 : 100);
    for (Lane& lane : lanes) {
      lane.carry();
      lane.release(Clock::now());
    }
  }
  std::printf(
      "{\"carried\": %lu, \"lost\": %lu, \"doubled\": %lu, \"reordered\": %lu, \"refused\": %lu}\n",
      done.carried, done.lost, done.doubled, done.reordered, done.refused);
  return 0;
}
