// SPDX-License-Identifier: BSD-3-Clause
// Buffers of the workloads, and where their cache lines are when the work begins.
#pragma once
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace bench {

// kWarm: written by the same core just before, 32 packets at a time. kPacketCold: buffers' metadata warm,
// packet bytes in DRAM, as a NIC without direct cache access leaves them. kOtherCore: all written by
// another core, 32 Ki packets at a time. kAllCold: metadata and packet bytes in DRAM.
enum class Lines : uint8_t { kWarm, kPacketCold, kOtherCore, kAllCold };

// A pool that gives the buffers out first in, first out, in an order shuffled once, so that they cycle
// through all of its memory.
class CyclingPool {
 public:
  // Throws std::runtime_error. `room` is the data room behind the headroom.
  CyclingPool(const std::string& name, uint32_t count, uint16_t room);
  ~CyclingPool();
  CyclingPool(const CyclingPool&) = delete;
  CyclingPool& operator=(const CyclingPool&) = delete;
  // n single buffers as rte_pktmbuf_alloc gives them. Throws std::runtime_error where there are too few.
  void get(rte_mbuf** pkts, uint32_t n);
  // A chain of buffers.
  rte_mbuf* get_chain(uint32_t buffers);
  rte_mempool* pool() { return pool_; }

 private:
  rte_mempool* pool_;
};

// Flushes the lines of one packet: kPacketCold and kAllCold; the headers', or with `payload` all.
void cool(const rte_mbuf& m, Lines lines, bool payload);
void fence();

// Runs work on another CPU, one piece at a time.
class OtherCore {
 public:
  explicit OtherCore(int cpu);
  ~OtherCore();
  void run(const std::function<void()>& work);  // returns when it is done

 private:
  std::mutex mutex_;
  std::condition_variable cv_;
  const std::function<void()>* work_ = nullptr;
  bool end_ = false;
  std::thread thread_;
};

void pin_to(int cpu);

}  // namespace bench
