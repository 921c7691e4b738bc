// SPDX-License-Identifier: BSD-3-Clause
// The order of age over places of a table: their `prev` and `next` are places, and place 0 anchors
// the list, whose oldest is `links[0].next`; 0: none. Worker thread.
#pragma once
#include <cstdint>

namespace pxio {

template <typename Link>
inline void link_youngest(Link* links, uint32_t place) noexcept {
  Link& l = links[place];
  l.next = 0;
  l.prev = links[0].prev;
  links[l.prev].next = place;
  links[0].prev = place;
}

template <typename Link>
inline void unlink_place(Link* links, uint32_t place) noexcept {
  const Link& l = links[place];
  links[l.prev].next = l.next;
  links[l.next].prev = l.prev;
}

}  // namespace pxio
