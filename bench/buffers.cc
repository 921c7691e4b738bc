// SPDX-License-Identifier: BSD-3-Clause
#include "bench/buffers.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <pthread.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

#include "pxio/dp/pkt.h"

namespace bench {

CyclingPool::CyclingPool(const std::string& name, uint32_t count, uint16_t room) {
  pool_ = rte_pktmbuf_pool_create(name.c_str(), count, 0, 0, static_cast<uint16_t>(room + RTE_PKTMBUF_HEADROOM),
                                  SOCKET_ID_ANY);
  if (pool_ == nullptr)
    throw std::runtime_error(fmt::format("no memory for {} buffers of {} B ({})", count, room, rte_strerror(rte_errno)));
  std::vector<rte_mbuf*> all(count);
  get(all.data(), count);
  for (rte_mbuf* m : all) std::memset(m->buf_addr, 0, m->buf_len);
  std::shuffle(all.begin(), all.end(), std::mt19937_64(1));
  for (rte_mbuf* m : all) rte_pktmbuf_free(m);
}

CyclingPool::~CyclingPool() { rte_mempool_free(pool_); }

void CyclingPool::get(rte_mbuf** pkts, uint32_t n) {
  if (rte_pktmbuf_alloc_bulk(pool_, pkts, n) != 0)
    throw std::runtime_error(fmt::format("pool {} has fewer than {} buffers left", pool_->name, n));
}

rte_mbuf* CyclingPool::get_chain(uint32_t buffers) {
  std::vector<rte_mbuf*> all(buffers);
  get(all.data(), buffers);
  for (uint32_t i = 0; i + 1 < buffers; ++i) all[i]->next = all[i + 1];
  all[0]->nb_segs = static_cast<uint16_t>(buffers);
  return all[0];
}

__attribute__((target("clflushopt"))) void cool(const rte_mbuf& head, Lines lines, bool payload) {
  for (const rte_mbuf* m = &head; m != nullptr;) {
    const rte_mbuf* next = m->next;
    const uint8_t* p = pxio::data(*m);
    const uint32_t n = payload ? m->data_len : std::min<uint32_t>(m->data_len, 128);
    for (uint32_t i = 0; i < n; i += 64) _mm_clflushopt(const_cast<uint8_t*>(p + i));
    if (n != 0) _mm_clflushopt(const_cast<uint8_t*>(p + n - 1));
    if (lines == Lines::kAllCold) {
      auto* meta = reinterpret_cast<uint8_t*>(const_cast<rte_mbuf*>(m));
      _mm_clflushopt(meta);
      _mm_clflushopt(meta + 64);
    }
    m = next;
  }
}

void fence() { _mm_mfence(); }

void pin_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != 0)
    throw std::runtime_error(fmt::format("CPU {} can't be used by this process", cpu));
}

OtherCore::OtherCore(int cpu)
    : thread_([this, cpu] {
        pin_to(cpu);
        rte_thread_register();
        std::unique_lock lock(mutex_);
        for (;;) {
          cv_.wait(lock, [this] { return end_ || work_ != nullptr; });
          if (end_) break;
          (*work_)();
          work_ = nullptr;
          cv_.notify_all();
        }
        rte_thread_unregister();
      }) {}

OtherCore::~OtherCore() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  cv_.notify_all();
  thread_.join();
}

void OtherCore::run(const std::function<void()>& work) {
  std::unique_lock lock(mutex_);
  work_ = &work;
  cv_.notify_all();
  cv_.wait(lock, [this] { return work_ == nullptr; });
}

}  // namespace bench
