// SPDX-License-Identifier: BSD-3-Clause
#include "bench/floor.h"

#include <immintrin.h>
#include <rte_hash_crc.h>

#include "pxio/dp/pkt.h"
#include "pxio/dp/wire.h"

namespace bench {

using pxio::load;

namespace {

constexpr uint32_t kBurst = 32, kFlowLines = 65536;

}  // namespace

MergeFloor::MergeFloor() : flows_(kFlowLines) {}

uint32_t MergeFloor::poll(rte_ring* from, rte_ring* to) noexcept {
  rte_mbuf* pkts[kBurst];
  const uint32_t n = rte_ring_sc_dequeue_burst(from, reinterpret_cast<void**>(pkts), kBurst, nullptr);
  if (n == 0) return 0;
  uint8_t* p[kBurst];
  uint32_t line[kBurst];
  // Plain loads first: all are under way at once, and none is dropped as prefetches are.
  uint64_t seen = 0;
  for (uint32_t i = 0; i < n; ++i) {
    p[i] = pxio::data(*pkts[i]);
    seen += reinterpret_cast<uintptr_t>(pkts[i]->next);
  }
  for (uint32_t i = 0; i < n; ++i) seen += load<uint64_t>(p[i] + 64);
  for (uint32_t i = 0; i < n; ++i) {
    uint32_t h = rte_hash_crc_8byte(load<uint64_t>(p[i] + 26), 0);
    h = rte_hash_crc_4byte(load<uint32_t>(p[i] + 34), h);
    line[i] = h % kFlowLines;
    rte_prefetch0(&flows_[line[i]]);
  }
  for (uint32_t i = 0; i < n; ++i) {
    rte_mbuf& m = *pkts[i];
    uint64_t* flow = flows_[line[i]].words;
    flow[0] += seen + 1;
    flow[1] = reinterpret_cast<uintptr_t>(&m);
    p[i][38] = static_cast<uint8_t>(flow[0]);
    // Written, though what stands there stays.
    __atomic_store_n(&m.next, m.next, __ATOMIC_RELAXED);
    m.data_off = static_cast<uint16_t>(m.data_off + 2);
    m.data_len = static_cast<uint16_t>(m.data_len - 2);
    m.pkt_len -= 2;
  }
  rte_ring_sp_enqueue_burst(to, reinterpret_cast<void**>(pkts), n, nullptr);
  return n;
}

uint64_t read_once(const rte_mbuf& head) noexcept {
  uint64_t sum = 0;
  for (const rte_mbuf* m = &head; m != nullptr; m = m->next) {
    const uint8_t* p = pxio::data(*m);
    uint32_t left = m->data_len;
#ifdef __AVX2__
    __m256i a = _mm256_setzero_si256(), b = a;
    for (; left >= 64; left -= 64, p += 64) {
      a = _mm256_xor_si256(a, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
      b = _mm256_xor_si256(b, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)));
    }
    a = _mm256_xor_si256(a, b);
    sum ^= static_cast<uint64_t>(_mm256_extract_epi64(a, 0) ^ _mm256_extract_epi64(a, 1) ^
                                 _mm256_extract_epi64(a, 2) ^ _mm256_extract_epi64(a, 3));
#endif
    for (; left >= 8; left -= 8, p += 8) sum ^= load<uint64_t>(p);
    for (; left != 0; --left) sum ^= *p++;
  }
  return sum;
}

}  // namespace bench
