// SPDX-License-Identifier: BSD-3-Clause
// Capture files: reading pcap and pcapng by libpcap, writing nanosecond pcap. Control thread.
#pragma once
#include <rte_mbuf.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "pxio/dp/packet_view.h"

struct pcap;

namespace pxgw {

// What is wrong with a capture and what would help: one line that names the file.
class CaptureError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A packet as the file has it; `data` is valid until the next one is read.
struct CaptureRecord {
  const uint8_t* data = nullptr;
  uint32_t len = 0;       // bytes in the file
  uint32_t wire_len = 0;  // bytes on the wire: more where a snaplen cut it
  std::chrono::nanoseconds stamp{};
};

class CaptureReader {
 public:
  // Throws CaptureError unless the file can be read and has Ethernet or raw IP packets.
  explicit CaptureReader(const std::string& path);
  ~CaptureReader();
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  // False at the end. Throws CaptureError where the file ends or breaks within a packet.
  bool next(CaptureRecord& record);

  pxio::Link link() const { return link_; }
  uint32_t linktype() const { return linktype_; }  // as files have it
  uint64_t packets() const { return packets_; }    // read so far
  uint64_t size() const { return size_; }          // of the file; 0: not known, a pipe
  uint64_t position() const;                       // bytes read so far

 private:
  std::string path_;
  pcap* pcap_ = nullptr;
  pxio::Link link_ = pxio::Link::kEthernet;
  uint32_t linktype_ = 1;
  uint64_t packets_ = 0, size_ = 0;
};

// Writes beside the target and renames when all is there: nobody ever sees half a file. Devices and
// pipes are written as they are.
class CaptureWriter {
 public:
  CaptureWriter(const std::string& path, uint32_t linktype);
  ~CaptureWriter();  // without commit() the target is as it was before
  CaptureWriter(const CaptureWriter&) = delete;
  CaptureWriter& operator=(const CaptureWriter&) = delete;

  // Appends the packet, whose `cut` last bytes the capture never had.
  void write(std::chrono::nanoseconds stamp, const rte_mbuf& m, uint32_t cut);
  void commit();

  uint64_t packets() const { return packets_; }
  uint64_t bytes() const { return bytes_; }  // of frames, as they were on the wire

 private:
  // Fits the second-level cache: a record is copied here and soon after to the page cache.
  static constexpr size_t kBufferSize = 256 * 1024;
  void put(const void* data, size_t len);
  void flush();
  [[noreturn]] void fail(const char* doing) const;

  std::string path_, temporary_;  // temporary_ is empty for devices
  int fd_ = -1;
  size_t used_ = 0;
  uint64_t packets_ = 0, bytes_ = 0;
  std::unique_ptr<uint8_t[]> buffer_;
};

// Throws CaptureError where both names lead to the same file.
void check_different(const std::string& in, const std::string& out);

}  // namespace pxgw
