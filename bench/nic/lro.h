// SPDX-License-Identifier: BSD-3-Clause
// LRO, as a NIC does it: few sessions, an exact segment size, headers of the first segment. A model
// of its own, which shares no rule with the gateway's merge. The NIC's one thread.
//
// A session takes segments of one flow that follow on, with the same size and headers; what can't
// be taken ends the flow's session first, so that order is kept. ACK and PSH are the only flags,
// timestamps the only option. A segment shorter than the first is taken as the last. When all
// contexts are taken, further flows pass unmerged (as on Intel's 82599; a session never makes room
// for another).
#pragma once
#include <rte_mbuf.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/nic/counters.h"
#include "bench/nic/frame.h"
#include "pxio/dp/units.h"

namespace softnic {

struct LroOptions {
  // What PSH does: `kEnd` takes the segment as the last of its session; `kAlone` ends the session
  // before it and passes it unmerged (ConnectX-6).
  enum class Push : uint8_t { kEnd, kAlone };
  bool on = true;
  uint32_t contexts = 64;
  pxio::Nanos timeout = std::chrono::microseconds(32);  // from a session's first segment on
  uint32_t max_bytes = 9000;                            // of a merged IP packet
  Push push = Push::kEnd;
};

class Lro {
 public:
  // Takes a packet for the driver and owns it: marked RTE_MBUF_F_TX_TCP_SEG where it is merged,
  // with tso_segsz and header lengths, as net_vhost wants it.
  using Out = std::function<void(rte_mbuf*)>;

  Lro(const LroOptions& options, rte_mempool* pool, Counters& counters, Out out);
  ~Lro();  // gives back what is held
  Lro(const Lro&) = delete;
  Lro& operator=(const Lro&) = delete;

  // One frame of the wire. `may_merge`: the driver has LRO enabled.
  void receive(Frame frame, bool may_merge, pxio::Nanos now);
  // Ends sessions whose time is over.
  void expire(pxio::Nanos now);
  void flush();
  bool holds() const { return used_ != 0; }

 private:
  struct Session {
    rte_mbuf* head = nullptr;  // null: free
    rte_mbuf* last = nullptr;
    TcpFrame first;
    uint32_t next_seq = 0, segments = 0;
    pxio::Nanos begun{0};
  };

  Session* find(Frame frame, const TcpFrame& t);
  Session* free_one();
  bool mergeable(Frame frame, const TcpFrame& t) const;
  bool goes_on(Session& s, Frame frame, const TcpFrame& t);
  void begin(Frame frame, const TcpFrame& t, pxio::Nanos now);
  void take(Session& s, Frame frame, const TcpFrame& t);
  void end(Session& s, uint64_t& why);
  void pass(Frame frame);

  const LroOptions options_;
  rte_mempool* pool_;
  Counters& counters_;
  Out out_;
  std::vector<Session> sessions_;
  uint32_t used_ = 0;
};

// The frame in buffers of the pool; null where it is empty.
rte_mbuf* to_packet(Frame frame, rte_mempool* pool);

}  // namespace softnic
