// SPDX-License-Identifier: BSD-3-Clause
// What a Linux interface merges of what it receives, set as a port wants it and put back at its end. The
// kernel's GRO says what it has merged, so that it can be cut again; LRO of a driver doesn't (bridges turn it
// off, too), so that its packets could not be passed on. Control thread.
#pragma once
#include <string>

#include "pxio/dp/fd.h"
#include "pxio/dp/port.h"

namespace pxio {

class ReceiveMerging {
 public:
  // GRO on or off, LRO off. What can't be changed, for want of CAP_NET_ADMIN for instance, stays as it is, and
  // state() says so.
  ReceiveMerging(const std::string& ifname, bool gro);
  // Puts back what was changed, be the interface renamed. One that has gone since, or was made anew, is left alone.
  ~ReceiveMerging();
  ReceiveMerging(const ReceiveMerging&) = delete;
  ReceiveMerging& operator=(const ReceiveMerging&) = delete;

  // As it is now, whoever changed it.
  OffloadState state() const;

 private:
  enum class Kind { kGro, kLro };
  bool get(Kind k) const noexcept;  // false where it can't be told
  bool set(Kind k, bool on) noexcept;

  std::string ifname_;
  Fd fd_;
  unsigned ifindex_;
  bool wanted_;
  int error_ = 0;  // of setting GRO
  bool gro_changed_ = false, lro_changed_ = false;
};

}  // namespace pxio
