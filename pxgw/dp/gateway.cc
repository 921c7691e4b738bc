// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/dp/gateway.h"

#include "pxgw/dp/translator.h"

namespace pxgw {

struct Gateway::Impl : Translator {
  using Translator::Translator;
};

Gateway::Gateway(const Policy& policy, const Capacity& capacity, pxio::Buffers buffers,
                 pxio::TxBuffer& to_inside, pxio::TxBuffer& to_outside)
    : impl_(std::make_unique<Impl>(policy, capacity, buffers, to_inside, to_outside)) {}
Gateway::~Gateway() = default;

void Gateway::add_stage(const StageMaker& make) { impl_->add_stage(make); }

void Gateway::process(pxio::Direction d, rte_mbuf** pkts, uint16_t n, pxio::Nanos now,
                      std::span<rte_mbuf* const> next) noexcept {
  impl_->process(d, pkts, n, now, next);
}
void Gateway::flush_expired(pxio::Nanos now) noexcept { impl_->flush_expired(now); }
std::optional<pxio::Nanos> Gateway::next_deadline() const noexcept {
  return impl_->next_deadline();
}
void Gateway::housekeeping(pxio::Nanos now) noexcept { impl_->housekeeping(now); }
void Gateway::drain(pxio::Nanos now) noexcept { impl_->drain(now); }
void Gateway::apply(const Policy& policy, pxio::Nanos now) noexcept { impl_->apply(policy, now); }
void Gateway::connect(Mailbox& box, uint8_t pair) { impl_->connect(box, pair); }
void Gateway::command(const Command& c, pxio::Nanos now) noexcept { impl_->command(c, now); }
const Counters& Gateway::counters() noexcept { return impl_->counters(); }

}  // namespace pxgw
