// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/plain_lanes.h"

#include <immintrin.h>

#include "pxio/dp/merge_plain.h"

#define PXIO_AVX2 [[gnu::target("avx2")]]

namespace pxio {
namespace {

constexpr uint32_t kLanes = 8;
// From the third byte of the frame on, IP and TCP headers lie at multiples of four: sixteen words
// reach to the end of the timestamps.
constexpr uint32_t kSkip = 2, kWords = 16;
constexpr uint32_t kHeaders = sizeof(EthernetHeader) + kIpv4HeaderLen + 32;
static_assert(kSkip + 4 * kWords == kHeaders);
// In place of what can't be such a segment.
alignas(64) constexpr std::array<uint8_t, 128> kNothing{};

struct Rows {
  __m256i r[kLanes];
};

PXIO_AVX2 inline Rows transpose(const Rows& a) {
  __m256i t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_epi32(a.r[i], a.r[i + 1]);
    t[i + 1] = _mm256_unpackhi_epi32(a.r[i], a.r[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    u[i] = _mm256_unpacklo_epi64(t[i], t[i + 2]);
    u[i + 1] = _mm256_unpackhi_epi64(t[i], t[i + 2]);
    u[i + 2] = _mm256_unpacklo_epi64(t[i + 1], t[i + 3]);
    u[i + 3] = _mm256_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  Rows out;
  for (int i = 0; i < 4; ++i) {
    out.r[i] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x20);
    out.r[i + 4] = _mm256_permute2x128_si256(u[i], u[i + 4], 0x31);
  }
  return out;
}

PXIO_AVX2 inline __m256i all(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
PXIO_AVX2 inline __m256i add(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
// Both halves of each word, added.
PXIO_AVX2 inline __m256i halves(__m256i a) {
  return add(_mm256_and_si256(a, all(0xffff)), _mm256_srli_epi32(a, 16));
}
PXIO_AVX2 inline __m256i swap32(__m256i a) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12));
  return _mm256_shuffle_epi8(a, order);
}
PXIO_AVX2 inline __m256i masked_equal(__m256i a, uint32_t mask, uint32_t value) {
  return _mm256_cmpeq_epi32(_mm256_and_si256(a, all(mask)), all(value));
}
PXIO_AVX2 inline void put(uint32_t* to, __m256i a) {
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), a);
}
// Words of 64 bits, from their halves.
PXIO_AVX2 inline void put(uint64_t* to, __m256i low, __m256i high) {
  const __m256i a = _mm256_unpacklo_epi32(low, high), b = _mm256_unpackhi_epi32(low, high);
  _mm256_store_si256(reinterpret_cast<__m256i*>(to), _mm256_permute2x128_si256(a, b, 0x20));
  _mm256_store_si256(reinterpret_cast<__m256i*>(to + 4), _mm256_permute2x128_si256(a, b, 0x31));
}
PXIO_AVX2 inline uint32_t bits(__m256i a) {
  return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(a)));
}

constexpr uint32_t raw16(uint32_t host) { return (host >> 8 | host << 8) & 0xffff; }

// Lanes `at` ... at + 7, which are plain and which as long as the first. `frame_len` of packets that may not be
// taken is 0.
struct Eight {
  uint32_t plain, alike;
};
PXIO_AVX2 inline Eight eight(const uint8_t* const* p, const uint32_t* frame_len, PlainLanes& out, uint32_t at,
                             __m256i& first) {
  Rows low, high;
  for (uint32_t i = 0; i < kLanes; ++i) {
    low.r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p[i] + kSkip));
    high.r[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p[i] + kSkip + 32));
  }
  // l[2]: source MAC and EtherType; l[3]: version, TOS, length; l[4]: ID, fragment field; l[5]:
  // TTL, protocol, checksum; l[6], l[7]: addresses; h[0]: ports; h[1]: sequence number; h[2]: ack;
  // h[3]: header length, flags, window; h[4]: checksum, urgent pointer; h[5] ... h[7]: timestamps.
  const Rows low_t = transpose(low), high_t = transpose(high);
  const __m256i* l = low_t.r;
  const __m256i* h = high_t.r;

  const __m256i length = swap32(_mm256_and_si256(l[3], all(0xffff0000)));
  constexpr uint32_t kMay = raw16(kPsh | kEce | kCwr | kAe);
  __m256i ok = masked_equal(l[2], 0xffff0000, raw16(kEtherIpv4) << 16);
  ok = _mm256_and_si256(ok, masked_equal(l[3], 0xff, 0x45));
  ok = _mm256_and_si256(ok, masked_equal(l[4], raw16(kIpMf | kIpOffsetMask) << 16, 0));
  ok = _mm256_and_si256(ok, masked_equal(l[5], 0xff00, kProtoTcp << 8));
  ok = _mm256_and_si256(ok, masked_equal(h[3], 0xffff & ~kMay, raw16(8u << 12 | kAck)));
  ok = _mm256_and_si256(ok, _mm256_cmpeq_epi32(h[5], all(kTimestampWord)));
  ok = _mm256_and_si256(ok, _mm256_cmpgt_epi32(length, all(kIpv4HeaderLen + 32)));
  const __m256i frames = _mm256_load_si256(reinterpret_cast<const __m256i*>(frame_len));
  ok = _mm256_and_si256(ok, _mm256_cmpeq_epi32(frames, add(length, all(sizeof(EthernetHeader)))));

  const __m256i addresses = add(halves(l[6]), halves(l[7]));
  __m256i sum = add(add(halves(l[3]), halves(l[4])), add(halves(l[5]), addresses));
  sum = halves(halves(sum));
  ok = _mm256_and_si256(ok, _mm256_cmpeq_epi32(sum, all(0xffff)));

  // Upper length of the pseudo-header, in the order of bytes on the wire.
  const __m256i upper = _mm256_sub_epi32(length, all(kIpv4HeaderLen));
  const __m256i upper_raw = _mm256_and_si256(
      _mm256_or_si256(_mm256_slli_epi32(upper, 8), _mm256_srli_epi32(upper, 8)), all(0xffff));
  __m256i tcp = add(add(addresses, upper_raw), all(uint32_t{kProtoTcp} << 8));
  for (int i = 0; i < 8; ++i) tcp = add(tcp, halves(h[i]));

  const __m256i flags_window = swap32(h[3]);  // header length and flags above, the window below
  const __m256i flags = _mm256_and_si256(_mm256_srli_epi32(flags_window, 16), all(0x0fff));
  const __m256i kept = _mm256_andnot_si256(all(kPsh | kFin), flags);
  constexpr uint32_t kAlways = uint32_t{32 / 4} << (kLengthAt - 32) | uint32_t{kUsualStamp}
                                                                          << (kStampAt - 32);
  // TOS, TTL and fragment field, at 0, 8 and 16.
  const __m256i l3 =
      _mm256_or_si256(_mm256_or_si256(_mm256_and_si256(_mm256_srli_epi32(l[3], 8), all(0xff)),
                                      _mm256_slli_epi32(_mm256_and_si256(l[5], all(0xff)), 8)),
                      _mm256_and_si256(l[4], all(0xffff0000)));

  put(&out.addr[at], l[7], l[6]);
  put(&out.same[at], l3, _mm256_or_si256(_mm256_slli_epi32(kept, kFlagsAt - 32), all(kAlways)));
  // The inside's port in the low half.
  put(&out.ports[at], _mm256_or_si256(_mm256_slli_epi32(h[0], 16), _mm256_srli_epi32(h[0], 16)));
  put(&out.ip_len[at], length);
  put(&out.seq[at], swap32(h[1]));
  put(&out.ack[at], swap32(h[2]));
  put(&out.tsval[at], swap32(h[6]));
  put(&out.tsecr[at], swap32(h[7]));
  put(&out.window_flags[at],
      _mm256_or_si256(_mm256_slli_epi32(flags, 16), _mm256_and_si256(flags_window, all(0xffff))));
  put(&out.sum[at], tcp);
  if (at == 0) first = _mm256_broadcastd_epi32(_mm256_castsi256_si128(length));
  return {bits(ok), bits(_mm256_cmpeq_epi32(length, first))};
}

// Eight words, each beside the one before it: `at` and `at` - 1 ... Loads are those of whole vectors that were stored,
// since others would wait for the stores to reach the cache.
struct Neighbours {
  __m256i here, before;
};
PXIO_AVX2 inline Neighbours neighbours(const uint32_t* lanes, uint32_t at) {
  const auto* from = reinterpret_cast<const __m256i*>(lanes + at);
  const __m256i here = _mm256_load_si256(from);
  const __m256i joint = _mm256_permute2x128_si256(at == 0 ? here : _mm256_load_si256(from - 1), here, 0x21);
  return {here, _mm256_alignr_epi8(here, joint, 12)};
}
// A bit for each of lanes `at` ... at + 7 whose word is that of the lane before it.
PXIO_AVX2 inline uint32_t repeated(const uint64_t* lanes, uint32_t at) {
  const auto* from = reinterpret_cast<const __m256i*>(lanes + at);
  __m256i last = at == 0 ? _mm256_setzero_si256() : _mm256_load_si256(from - 1);
  uint32_t r = 0;
  for (int i = 0; i < 2; ++i) {
    const __m256i here = _mm256_load_si256(from + i);
    const __m256i before = _mm256_alignr_epi8(here, _mm256_permute2x128_si256(last, here, 0x21), 8);
    r |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(here, before)))) << 4 * i;
    last = here;
  }
  return r;
}

// InLanes::follows of lanes `at` ... at + 7, whoever is plain; of lane 0 it doesn't hold.
PXIO_AVX2 inline uint32_t following(const PlainLanes& l, uint32_t at) {
  const Neighbours seq = neighbours(l.seq.data(), at), length = neighbours(l.ip_len.data(), at);
  const __m256i end = add(seq.before, _mm256_sub_epi32(length.before, all(kIpv4HeaderLen + 32)));
  uint32_t r = bits(_mm256_cmpeq_epi32(seq.here, end));
  if (r == 0) [[likely]] return 0;  // flows take turns
  const Neighbours ports = neighbours(l.ports.data(), at), flags = neighbours(l.window_flags.data(), at);
  __m256i ok = _mm256_cmpeq_epi32(length.here, length.before);
  ok = _mm256_and_si256(ok, _mm256_cmpeq_epi32(ports.here, ports.before));
  ok = _mm256_and_si256(ok, masked_equal(_mm256_or_si256(flags.here, flags.before), uint32_t{kPsh} << 16, 0));
  __m256i back = _mm256_setzero_si256();  // the highest bit tells what steps back
  for (const auto* lanes : {&l.ack, &l.tsval, &l.tsecr}) {
    const Neighbours of = neighbours(lanes->data(), at);
    back = _mm256_or_si256(back, _mm256_sub_epi32(of.here, of.before));
  }
  return r & bits(ok) & ~bits(back) & repeated(l.addr.data(), at) & repeated(l.same.data(), at);
}

PXIO_AVX2 InLanes recognise_avx2(rte_mbuf* const* pkts, uint16_t n, PlainLanes& lanes) noexcept {
  const uint8_t** p = lanes.frame.data();
  alignas(32) uint32_t frame_len[kBurst];
  uint32_t single = static_cast<uint32_t>((uint64_t{1} << n) - 1), merged = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const rte_mbuf& m = *pkts[i];
    p[i] = data(m);
    frame_len[i] = m.pkt_len;
    constexpr uint64_t kRare = RTE_MBUF_F_RX_LRO | RTE_MBUF_F_RX_L4_CKSUM_BAD;  // or, with another bit, no verdict
    if ((m.ol_flags & kRare) != 0 || m.nb_segs != 1 || m.data_len < kLeastPlain) [[unlikely]] {
      const bool lro = (m.ol_flags & RTE_MBUF_F_RX_LRO) != 0;
      merged |= uint32_t{lro} << i;
      if (lro || m.nb_segs != 1) single &= ~(1u << i);
      if (m.data_len < kLeastPlain || (m.ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_BAD) {
        p[i] = kNothing.data();
        frame_len[i] = 0;
      }
    }
    asm volatile("" : : "r"(p[i][0]), "r"(p[i][64]));
  }
  const uint32_t whole = (n + kLanes - 1) / kLanes * kLanes;
  for (uint32_t i = n; i < whole; ++i) {
    p[i] = kNothing.data();
    frame_len[i] = 0;
  }
  uint32_t ok = 0, alike = 0, follows = 0;
  __m256i first = _mm256_setzero_si256();
  for (uint32_t i = 0; i < whole; i += kLanes) {
    const Eight e = eight(p + i, frame_len + i, lanes, i, first);
    ok |= e.plain << i;
    alike |= e.alike << i;
    follows |= following(lanes, i) << i;
  }
  const uint32_t plain = ok & single;
  return {plain, ok & merged, alike, follows & plain & plain << 1};
}

}  // namespace

RecogniseLanes recognise_lanes() noexcept {
  static_assert(kBurst == 32, "a bit a packet");
  return __builtin_cpu_supports("avx2") ? recognise_avx2 : nullptr;
}

}  // namespace pxio
