// SPDX-License-Identifier: BSD-3-Clause
// Hellos of inside hosts, answered in the packet that brought them. Worker thread.
#pragma once
#include "caravan/core/registrar.h"
#include "caravan/dp/message.h"
#include "pxio/dp/packet_view.h"
#include "pxio/dp/pkt.h"

namespace caravan {

// Whether a datagram (Kind::kUdp) from inside is a hello or claims to be one: to the caravan port,
// with the magic and type.
inline bool is_hello(const rte_mbuf& m, const pxio::PacketView& v, uint16_t port) noexcept {
  return to_port(m, v, port) && has_type(m, v, Type::kHello);
}

// Makes the hello's packet the answer to it, which goes back to the port it came from, from the
// address that it was sent to. False: no answer, the caller drops the packet. The caller knows that
// it came from an inside port and address.
bool answer_hello(rte_mbuf& m, const pxio::PacketView& v, Registrar& registrar,
                  pxio::Nanos now) noexcept;

}  // namespace caravan
