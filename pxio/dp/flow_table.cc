// SPDX-License-Identifier: BSD-3-Clause
#include "pxio/dp/flow_table.h"

#include <bit>
#include <cstring>
#include <random>

#include "pxio/dp/pkt.h"

namespace pxio {
FlowKey make_key(const rte_mbuf& m, const PacketView& v, Direction d) noexcept {
  FlowKey k;
  const uint8_t* p = data(m);
  const bool inbound = d == Direction::kInbound;  // then the destination is the inside end
  uint16_t src_port, dst_port;
  std::memcpy(&src_port, p + v.l4_off(), 2);
  std::memcpy(&dst_port, p + v.l4_off() + 2, 2);
  k.ports = inbound ? dst_port | uint32_t{src_port} << 16 : src_port | uint32_t{dst_port} << 16;
  k.version = v.version;
  if (v.vlan_tags == 1) {
    uint32_t tag;
    std::memcpy(&tag, p + 12, 4);
    k.vlan = tag;
  } else if (v.vlan_tags == 2) {
    std::memcpy(&k.vlan, p + 12, 8);
  }
  k.vlan &= kVlanKeyMask;
  if (v.version == 4) {
    uint32_t src, dst;
    std::memcpy(&src, p + v.l2_len + offsetof(Ipv4Header, src), 4);
    std::memcpy(&dst, p + v.l2_len + offsetof(Ipv4Header, dst), 4);
    k.addr[0] = inbound ? dst | uint64_t{src} << 32 : src | uint64_t{dst} << 32;
  } else {
    const uint8_t* ip = p + v.l2_len;
    const size_t src = offsetof(Ipv6Header, src), dst = offsetof(Ipv6Header, dst);
    std::memcpy(&k.addr[0], ip + (inbound ? dst : src), 16);
    std::memcpy(&k.addr[2], ip + (inbound ? src : dst), 16);
  }
  return k;
}

FlowTable::FlowTable(uint32_t capacity) : capacity_(capacity) {
  // Four flows a bucket of eight on average.
  const uint64_t buckets = std::bit_ceil((uint64_t{capacity} + 3) / 4);
  mask_ = buckets - 1;
  std::random_device rd;
  for (uint64_t& s : secret_) s = (uint64_t{rd()} << 32 | rd()) | 1;
  buckets_ = make_zeroed<Bucket>(buckets);
  flows_ = make_zeroed<Flow>(size_t{capacity} + 1);
  rest_ = make_zeroed<Rest>(size_t{capacity} + 1);
}

Flow* FlowTable::insert(const FlowKey& key, uint64_t hash) noexcept {
  const uint16_t tag = tag_of(hash);
  const uint64_t first = bucket_of(hash), second = other_bucket(first, tag);
  auto room = [this](uint64_t b) {
    unsigned n = 0;
    for (uint32_t f : buckets_[b].flow) n += f == 0;
    return n;
  };
  const unsigned room1 = room(first), room2 = room(second);
  if (room1 + room2 == 0) return nullptr;
  uint32_t i;
  if (free_ != 0) {
    i = free_;
    free_ = flows_[i].hold;
  } else if (high_ <= capacity_) {
    i = high_++;
  } else {
    return nullptr;
  }
  Bucket& b = buckets_[room1 >= room2 ? first : second];
  unsigned k = 0;
  while (b.flow[k] != 0) ++k;
  b.flow[k] = i;
  b.tag[k] = tag;
  Flow& f = flows_[i];
  f = Flow{};
  f.addr0 = key.addr[0];
  f.vlan = key.vlan;
  f.ports = key.ports;
  f.version = static_cast<uint8_t>(key.version);
  f.in_use = true;
  f.tag = tag;
  std::memcpy(&rest_[i], &key.addr[1], sizeof(Rest));
  ++size_;
  return &f;
}

void FlowTable::erase(Flow& flow) noexcept {
  const uint32_t i = index_of(flow);
  const uint64_t first = bucket_of(hash(key_of(flow)));
  for (uint64_t at : {first, other_bucket(first, flow.tag)}) {
    for (unsigned k = 0; k < 8; ++k) {
      if (buckets_[at].flow[k] != i) continue;
      buckets_[at].flow[k] = 0;
      flow.in_use = false;
      flow.hold = free_;
      free_ = i;
      --size_;
      return;
    }
  }
}

FlowKey FlowTable::key_of(const Flow& flow) const noexcept {
  FlowKey k;
  k.addr[0] = flow.addr0;
  std::memcpy(&k.addr[1], &rest_[index_of(flow)], sizeof(Rest));
  k.vlan = flow.vlan;
  k.ports = flow.ports;
  k.version = flow.version;
  return k;
}

}  // namespace pxio
