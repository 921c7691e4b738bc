// SPDX-License-Identifier: BSD-3-Clause
// Flows that are translated: fixed memory, one cache line a flow on IPv4 (IPv6 keeps 24 B of its
// addresses apart), found through buckets of eight 16-bit tags. A key may lie in either of two buckets
// (the emptier one is taken), so the table fills to over 90 % before an insertion fails; a failed one
// leaves the flow untranslated. The hash is keyed, since strangers choose addresses and ports.
// One table per worker; worker thread.
#pragma once
#include <emmintrin.h>
#include <rte_prefetch.h>

#include <array>
#include <cstring>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "pxio/dp/packet_view.h"
#include "pxio/dp/units.h"
#include "pxio/dp/zeroed.h"

struct rte_mbuf;

namespace pxio {

// Priority and drop eligibility of VLAN tags don't tell flows apart, TPID and VLAN ID do.
inline constexpr uint64_t kVlanKeyMask = ~uint64_t{0x00f0000000f00000};

// Both directions of a flow have one key: the inside end first.
struct FlowKey {
  std::array<uint64_t, 4> addr{};  // IPv4: both addresses in the first word
  uint64_t vlan = 0;               // TPID and VLAN ID of up to two tags
  uint32_t ports = 0;              // inside port in the low half
  uint32_t version = 0;
  bool operator==(const FlowKey&) const = default;
};

// Key of a packet whose view has_flow().
FlowKey make_key(const rte_mbuf& m, const PacketView& v, Direction d) noexcept;

// Coarse time for ageing, in units of 2^20 ns (about a millisecond); wraps after 52 days.
using Ticks = uint32_t;
constexpr Ticks to_ticks(Nanos t) { return static_cast<Ticks>(t.count() >> 20); }

enum class EcnMode : uint8_t { kUnknown, kNone, kClassic, kAccurate };

struct alignas(64) Flow {
  // Key.
  uint64_t addr0 = 0;
  uint64_t vlan = 0;
  uint32_t ports = 0;
  // Merging, inbound.
  uint32_t hold = 0;        // slot in the Merger, 0: nothing held
  uint32_t next_seq = 0;    // behind the highest byte seen
  uint32_t last_in = 0;     // time of the last data segment, in units of 1024 ns
  uint16_t merge_cap = 0;   // largest IP packet that the inside end takes
  uint16_t full_payload = 0;  // the largest payload seen lately: what counts as a full segment
  uint8_t bulk = 0;         // how much the flow has looked like bulk transfer, 0 ... 15
  uint8_t old_run = 0;      // consecutive segments that lay behind next_seq
  // Splitting, outbound.
  uint16_t peer_mss = 0;    // as the outside end advertised it
  uint16_t path_mtu = 0;    // of the outside destination, 0: not known
  EcnMode ecn = EcnMode::kUnknown;
  uint8_t rtx_count = 0;    // times that the segment at out_una was sent again
  uint32_t out_next = 0;    // behind the highest byte sent
  uint32_t out_una = 0;     // the outside end has acknowledged up to here
  Ticks last_seen = 0;
  uint8_t version = 0;
  bool in_use : 1 = false;
  bool jumbo : 1 = false;          // the inside end takes more than the outside MTU
  bool seq_known : 1 = false;      // next_seq holds
  bool out_known : 1 = false;      // out_next and out_una hold
  bool renewed : 1 = false;        // a SYN came: another connection may be about to take over
  bool probe_due : 1 = false;      // the path of the next outbound packet is to be probed
  uint8_t fins = 0;                // bit per direction; kReset: RST seen
  uint8_t small_run = 0;           // consecutive segments smaller than full_payload
  uint8_t early = 0;               // packets that left merged, counted up to 255
  uint8_t last_heard = 0;          // time of the last inbound segment of another kind than last_in's, in 16 Ticks
  uint16_t tag = 0;                // for finding its bucket when it is forgotten
  static constexpr uint8_t kReset = 4;
  bool closing() const { return fins >= 3; }
};
static_assert(sizeof(Flow) == 64);

class FlowTable {
 public:
  // Throws std::bad_alloc. Memory is reserved at once and touched as flows come.
  explicit FlowTable(uint32_t capacity);
  FlowTable(const FlowTable&) = delete;
  FlowTable& operator=(const FlowTable&) = delete;

  uint64_t hash(const FlowKey& key) const noexcept {
    uint64_t h = mix(key.addr[0] ^ secret_[0], (uint64_t{key.ports} << 32 | key.version) ^ secret_[1]);
    h = mix(h ^ key.vlan, secret_[2]);
    if (key.version == 6) {
      h = mix(h ^ key.addr[1], key.addr[2] ^ secret_[0]);
      h = mix(h ^ key.addr[3], secret_[1]);
    }
    return h;
  }
  void prefetch(uint64_t hash) const noexcept { rte_prefetch0(&buckets_[bucket_of(hash)]); }
  Flow* find(const FlowKey& key, uint64_t hash) noexcept {
    const uint16_t tag = tag_of(hash);
    const uint64_t first = bucket_of(hash);
    if (Flow* f = find_in(buckets_[first], tag, key)) return f;
    return find_in(buckets_[other_bucket(first, tag)], tag, key);
  }
  // A new flow with the key set and all else as constructed; null where there is no room. The key must
  // not be in the table.
  Flow* insert(const FlowKey& key, uint64_t hash) noexcept;
  void erase(Flow& flow) noexcept;

  uint32_t size() const noexcept { return size_; }
  uint32_t capacity() const noexcept { return capacity_; }
  FlowKey key_of(const Flow& flow) const noexcept;
  Flow& at(uint32_t index) noexcept { return flows_[index]; }
  uint32_t index_of(const Flow& f) const noexcept { return static_cast<uint32_t>(&f - flows_.get()); }
  // Visits the next `count` slots in turn, calling f(Flow&) for those in use; f may erase that flow.
  template <typename F>
  void sweep(uint32_t count, F f) noexcept {
    for (; count != 0 && high_ > 1; --count) {
      if (++hand_ >= high_) hand_ = 1;
      if (flows_[hand_].in_use) f(flows_[hand_]);
    }
  }
  uint32_t touched() const noexcept { return high_; }

 private:
  struct alignas(64) Bucket {
    std::array<uint16_t, 8> tag;
    std::array<uint32_t, 8> flow;  // 0: free
  };
  struct Rest {  // of an IPv6 key
    std::array<uint64_t, 3> addr;
  };
  static_assert(sizeof(Bucket) == 64);

  uint64_t bucket_of(uint64_t hash) const { return hash & mask_; }
  // Depends on the tag alone, so that it leads back as well.
  uint64_t other_bucket(uint64_t bucket, uint16_t tag) const {
    return (bucket ^ (uint64_t{tag} * 0x5bd1e995u + 1)) & mask_;
  }
  static uint16_t tag_of(uint64_t hash) { return static_cast<uint16_t>(hash >> 48); }
  // Folded 128-bit product: every bit of the result depends on all bits of both factors.
  static uint64_t mix(uint64_t a, uint64_t b) {
    const auto p = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(p) ^ static_cast<uint64_t>(p >> 64);
  }
  Flow* find_in(const Bucket& b, uint16_t tag, const FlowKey& key) noexcept {
    const __m128i same = _mm_cmpeq_epi16(_mm_load_si128(reinterpret_cast<const __m128i*>(b.tag.data())),
                                         _mm_set1_epi16(static_cast<int16_t>(tag)));
    // Two bits a tag.
    for (auto hits = static_cast<unsigned>(_mm_movemask_epi8(same)); hits != 0;) {
      const auto k = static_cast<unsigned>(__builtin_ctz(hits)) / 2;
      if (b.flow[k] != 0 && matches(b.flow[k], key)) return &flows_[b.flow[k]];
      hits &= ~(3u << (2 * k));
    }
    return nullptr;
  }
  bool matches(uint32_t i, const FlowKey& key) const noexcept {
    const Flow& f = flows_[i];
    if (f.addr0 != key.addr[0] || f.ports != key.ports || f.vlan != key.vlan || f.version != key.version)
      return false;
    return key.version == 4 || std::memcmp(&rest_[i], &key.addr[1], sizeof(Rest)) == 0;
  }

  uint32_t capacity_;
  uint32_t size_ = 0;
  uint32_t high_ = 1;       // slots from here on were never used; slot 0 is none
  uint32_t free_ = 0;       // head of the list of freed slots, linked through Flow::hold
  uint32_t hand_ = 0;
  uint64_t mask_;
  std::array<uint64_t, 3> secret_;
  ZeroedArray<Bucket> buckets_;
  ZeroedArray<Flow> flows_;
  ZeroedArray<Rest> rest_;
};

}  // namespace pxio
