// SPDX-License-Identifier: BSD-3-Clause
// Sockets that send datagrams which may be fragmented or not, whatever path MTU the kernel
// remembers, and that tell the largest fragment of what arrives: UDP, or ICMP echo for hosts
// without a responder. No privileges for UDP. Not blocking. One thread.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fpmtud/core/base.h"

namespace fpmtud {

enum class Transport : uint8_t { kUdp, kEcho };

// Where a datagram arrived, so that the answer leaves from there.
struct Local {
  std::array<uint8_t, 16> address{};
  uint32_t interface = 0;
};

struct Datagram {
  Endpoint from;
  Local local;
  std::span<const uint8_t>
      payload;            // UDP's, or what follows the echo header; until the next receive
  uint16_t fragment = 0;  // the largest, with IP header; 0: it came whole
  uint8_t ttl = 0;
};

// An ICMP error about something that was sent, or the kernel's own refusal to send it.
struct PathError {
  enum class Kind : uint8_t { kTooBig, kRefused, kOther } kind = Kind::kOther;
  bool local = false;
  uint16_t mtu = 0;  // kTooBig
  Endpoint to;
  std::vector<uint8_t> quote;  // the front of the payload that was sent, as far as it came back
};

enum class SendResult : uint8_t { kSent, kAgain, kTooBig, kFailed };

sockaddr_storage to_sockaddr(const Endpoint& e, socklen_t& length);
Endpoint to_endpoint(const sockaddr* a);
std::string to_text(const Endpoint& e);                          // the address alone
std::optional<Endpoint> parse_address(const std::string& text);  // numeric

class Socket {
 public:
  // Bound to `at`, or to any address and a port of the kernel's choice. Throws std::runtime_error
  // with one line that says what to do.
  Socket(Transport transport, Family family, const std::optional<Endpoint>& at = {});
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int fd() const { return fd_; }
  Family family() const { return family_; }
  // That it is bound to; 0: nothing was sent yet.
  uint16_t port() const;
  // kAgain: the buffer is full, wait until it can be written. kTooBig: errors() says for what MTU.
  SendResult send(const Endpoint& to, std::span<const uint8_t> payload, bool fragmentable,
                  const Local* from = nullptr);
  // What has arrived, if anything has.
  std::optional<Datagram> receive();
  // What the error queue holds.
  std::optional<PathError> next_error();

 private:
  bool read_error_queue();
  void set(int level, int option, int value, const char* what);

  Transport transport_;
  Family family_;
  int fd_ = -1;
  bool raw_ = false;
  std::optional<bool> fragmentable_;  // as the socket is set at the moment
  std::deque<PathError> errors_;
  std::vector<uint8_t> buffer_;
};

}  // namespace fpmtud
