// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/capture.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pcap/pcap.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace pxgw {
namespace {

// One read system call serves some 170 packets, and what it reads is still in the cache.
constexpr size_t kReadBuffer = 256 * 1024;

// Values that files have; libpcap's DLT_ values differ from them for raw IP.
constexpr uint32_t kLinkEthernet = 1, kLinkRaw = 101, kLinkIpv4 = 228, kLinkIpv6 = 229;

constexpr uint32_t kMagicNanos = 0xa1b23c4d;
// The snaplen of the output: what libpcap takes at most, far above any packet.
constexpr uint32_t kSnaplen = 262144;

struct FileHeader {
  uint32_t magic;
  uint16_t major, minor;
  int32_t zone;
  uint32_t accuracy, snaplen, linktype;
};
struct RecordHeader {
  uint32_t seconds, nanos, len, wire_len;
};
static_assert(sizeof(FileHeader) == 24 && sizeof(RecordHeader) == 16);

template <typename... Args>
[[noreturn]] void refuse(const std::string& path, fmt::format_string<Args...> text,
                         Args&&... args) {
  throw CaptureError(path + ": " + fmt::format(text, std::forward<Args>(args)...));
}

// The first bytes of what is no capture often tell what it is instead.
const char* guess_format(const std::string& path) {
  unsigned char b[4] = {};
  if (FILE* f = std::fopen(path.c_str(), "rb")) {
    const size_t n = std::fread(b, 1, sizeof b, f);
    std::fclose(f);
    if (n >= 2 && b[0] == 0x1f && b[1] == 0x8b) return "compressed by gzip; unpack it first";
    if (n == 4 && b[0] == 0x28 && b[1] == 0xb5 && b[2] == 0x2f && b[3] == 0xfd)
      return "compressed by zstd; unpack it first";
    if (n == 4 && std::memcmp(b,
                              "\xfd"
                              "7zX",
                              4) == 0)
      return "compressed by xz; unpack it first";
  }
  return "not a pcap or pcapng file; capture one with 'tcpdump -w FILE'";
}

}  // namespace

CaptureReader::CaptureReader(const std::string& path) : path_(path) {
  FILE* f = std::fopen(path.c_str(), "rbe");
  if (f == nullptr) refuse(path, "can't be read: {}", std::strerror(errno));
  struct stat st {};
  if (::fstat(::fileno(f), &st) == 0) {
    const char* wrong = S_ISDIR(st.st_mode) ? "is a directory, not a capture"
                        : S_ISREG(st.st_mode) && st.st_size == 0
                            ? "is empty; was the capture stopped before its first packet?"
                            : nullptr;
    if (wrong != nullptr) {
      std::fclose(f);
      refuse(path, "{}", wrong);
    }
    if (S_ISREG(st.st_mode)) size_ = static_cast<uint64_t>(st.st_size);
  }
  std::setvbuf(f, nullptr, _IOFBF, kReadBuffer);
  __fsetlocking(f, FSETLOCKING_BYCALLER);  // one thread reads: locks cost as much as the reading
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_ = pcap_fopen_offline_with_tstamp_precision(f, PCAP_TSTAMP_PRECISION_NANO, error);
  if (pcap_ == nullptr) {
    std::fclose(f);
    const std::string_view e = error;
    if (e.find("unknown file format") != e.npos || (size_ != 0 && size_ < 4))
      refuse(path, "{}", guess_format(path));
    if (e.find("truncated") != e.npos)
      refuse(path, "is cut short in its file header; capture again");
    refuse(path, "can't be read as a capture: {}", e);
  }
  const int dlt = pcap_datalink(pcap_);
  switch (dlt) {
    case DLT_EN10MB:
      linktype_ = kLinkEthernet;
      break;
    case DLT_RAW:
      linktype_ = kLinkRaw;
      break;
    case DLT_IPV4:
      linktype_ = kLinkIpv4;
      break;
    case DLT_IPV6:
      linktype_ = kLinkIpv6;
      break;
    default: {
      const char* name = pcap_datalink_val_to_name(dlt);
      const std::string shown = name != nullptr ? name : std::to_string(dlt);
      pcap_close(pcap_);
      refuse(
          path,
          "has link type {}; needed are Ethernet or raw IP (capture on one interface, not 'any')",
          shown);
    }
  }
  link_ = linktype_ == kLinkEthernet ? pxio::Link::kEthernet : pxio::Link::kRawIp;
}

CaptureReader::~CaptureReader() {
  if (pcap_ != nullptr) pcap_close(pcap_);
}

bool CaptureReader::next(CaptureRecord& record) {
  pcap_pkthdr* header;
  const uint8_t* data;
  const int got = pcap_next_ex(pcap_, &header, &data);
  if (got == 1) [[likely]] {
    ++packets_;
    record.data = data;
    record.len = header->caplen;
    record.wire_len = std::max(header->caplen, header->len);
    // In nanosecond files tv_usec counts nanoseconds.
    record.stamp =
        std::chrono::seconds(header->ts.tv_sec) + std::chrono::nanoseconds(header->ts.tv_usec);
    return true;
  }
  if (got == PCAP_ERROR_BREAK) return false;
  const std::string_view e = pcap_geterr(pcap_);
  if (e.find("truncated") != e.npos) {
    refuse(
        path_,
        "is cut short behind packet {}; save what is whole with 'tcpdump -r {} -w WHOLE.pcap' and "
        "translate that",
        packets_, path_);
  }
  if (e.find("different from the type") != e.npos) {
    refuse(path_,
           "has interfaces of different link types; pick one with 'tshark -r {} -Y "
           "frame.interface_id==0 -w ONE.pcapng'",
           path_);
  }
  refuse(path_, "is damaged behind packet {} ({})", packets_, e);
}

uint64_t CaptureReader::position() const {
  const off_t at = ::ftello(pcap_file(pcap_));
  return at < 0 ? 0 : static_cast<uint64_t>(at);
}

CaptureWriter::CaptureWriter(const std::string& path, uint32_t linktype)
    : path_(path), buffer_(std::make_unique_for_overwrite<uint8_t[]>(kBufferSize)) {
  struct stat st {};
  const bool exists = ::stat(path.c_str(), &st) == 0;
  if (exists && S_ISDIR(st.st_mode)) refuse(path, "is a directory; name a file in it");
  if (exists && !S_ISREG(st.st_mode)) {
    // Renaming a file onto /dev/null would replace the device.
    fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail("be opened");
  } else {
    // Where the name is a link, the file behind it is what gets replaced.
    if (exists) {
      if (char* real = ::realpath(path.c_str(), nullptr)) {
        path_ = real;
        std::free(real);
      }
    }
    temporary_ = fmt::format("{}.tmp.{}", path_, ::getpid());
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) {
      const int e = errno;
      temporary_.clear();  // not ours to remove
      refuse(path, "can't be written: {}{}", std::strerror(e),
             e == ENOENT                 ? " (make its directory first)"
             : e == EACCES || e == EROFS ? " (choose a directory that you may write to)"
                                         : "");
    }
  }
  const FileHeader header{kMagicNanos, 2, 4, 0, 0, kSnaplen, linktype};
  put(&header, sizeof header);
}

CaptureWriter::~CaptureWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void CaptureWriter::fail(const char* doing) const {
  refuse(path_, "can't {}: {}", doing, std::strerror(errno));
}

void CaptureWriter::flush() {
  for (size_t done = 0; done < used_;) {
    const ssize_t n = ::write(fd_, buffer_.get() + done, used_ - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("be written");
    done += static_cast<size_t>(n);
  }
  used_ = 0;
}

void CaptureWriter::put(const void* data, size_t len) {
  const auto* p = static_cast<const uint8_t*>(data);
  while (len > 0) {
    if (used_ == kBufferSize) flush();
    const size_t n = std::min(len, kBufferSize - used_);
    std::memcpy(buffer_.get() + used_, p, n);
    used_ += n;
    p += n;
    len -= n;
  }
}

void CaptureWriter::write(std::chrono::nanoseconds stamp, const rte_mbuf& m, uint32_t cut) {
  const auto ns = static_cast<uint64_t>(stamp.count());
  const RecordHeader header{static_cast<uint32_t>(ns / 1'000'000'000),
                            static_cast<uint32_t>(ns % 1'000'000'000), m.pkt_len, m.pkt_len + cut};
  put(&header, sizeof header);
  for (const rte_mbuf* seg = &m; seg != nullptr; seg = seg->next)
    put(rte_pktmbuf_mtod(seg, const uint8_t*), seg->data_len);
  ++packets_;
  bytes_ += header.wire_len;
}

void CaptureWriter::commit() {
  flush();
  if (::close(std::exchange(fd_, -1)) != 0) fail("be written");
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("be replaced");
  temporary_.clear();
}

void check_different(const std::string& in, const std::string& out) {
  struct stat a {
  }, b{};
  if (::stat(in.c_str(), &a) == 0 && ::stat(out.c_str(), &b) == 0 && S_ISREG(a.st_mode) &&
      a.st_dev == b.st_dev && a.st_ino == b.st_ino)
    refuse(out, "is the input too; name another output");
}

}  // namespace pxgw
