// SPDX-License-Identifier: BSD-3-Clause
// The host's side of the hello: when to send one, and whether the gateway takes caravans now. No
// sockets, no clock. One thread.
#pragma once
#include <optional>

#include "caravan/core/hello.h"
#include "caravan/core/siphash.h"

namespace caravan {

struct ClientConfig {
  uint16_t size = 9000;  // the largest caravan that the host takes
  std::chrono::milliseconds lifetime{1000};
  std::chrono::milliseconds renew{250};     // between hellos
  std::chrono::milliseconds patience{700};  // without an answer for so long, the gateway is gone
  std::chrono::milliseconds retry{1000};    // between hellos while nobody answers
  Secret secret{};                          // random: of nonces
};

class Client {
 public:
  explicit Client(const ClientConfig& config) : config_(config) {}

  // When the next hello is due.
  Time due() const { return due_; }
  // The hello to send now.
  Hello next(Time now);
  // The last, which takes the registration back; nothing where there is none.
  std::optional<Hello> farewell() const;
  // What came from the gateway's address and the caravan port. False: no answer to a hello of ours.
  bool accept(Bytes payload, Time now);

  // Whether the gateway takes caravans, and sends them.
  bool active(Time now) const { return size_ != 0 && now - answered_ < config_.patience; }
  uint16_t size() const { return size_; }        // the largest caravan, both ways
  uint64_t session() const { return session_; }  // of the gateway; 0: none seen
  Status status() const { return status_; }      // of the last answer
  std::optional<Time> answered() const {
    return session_ != 0 ? std::optional(answered_) : std::nullopt;
  }
  uint64_t hellos() const { return count_; }
  uint64_t answers() const { return answers_; }

 private:
  static constexpr uint64_t kOpen = 8;  // hellos whose answers are still taken
  uint64_t nonce(uint64_t n) const;

  ClientConfig config_;
  Time due_{0};
  Time answered_{0};
  uint64_t count_ = 0, answers_ = 0;
  uint64_t cookie_ = 0, session_ = 0;
  uint16_t size_ = 0;
  Status status_ = Status::kCookie;
  bool asked_again_ = false;  // the cookie was just taken: the next hello goes at once
};

}  // namespace caravan
