// SPDX-License-Identifier: BSD-3-Clause
// Capture files and the options of `pxgw translate`; what it makes of traffic is for tests/golden.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "pxgw/ctl/capture.h"
#include "pxgw/ctl/translate.h"
#include "tests/support/eal.h"

using namespace pxgw;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "pxgw_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string file(const char* name) const { return path_ / name; }
  size_t count() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(path_), fs::directory_iterator()));
  }

 private:
  fs::path path_;
};

// A chain of `segs` buffers that holds `len` counted bytes.
pxio::PktPtr packet(uint32_t len, uint16_t segs) {
  const pxio::Buffers b = test::pools().buffers();
  pxio::PktPtr head(rte_pktmbuf_alloc(b.small));
  rte_mbuf* seg = head.get();
  for (uint32_t done = 0, i = 0; i < segs; ++i) {
    if (i != 0) {
      seg->next = rte_pktmbuf_alloc(b.small);
      seg = seg->next;
      head->nb_segs++;
    }
    const uint32_t n = i + 1u == segs ? len - done : len / segs;
    for (uint32_t k = 0; k < n; ++k) pxio::data(*seg)[k] = static_cast<uint8_t>(done + k);
    seg->data_len = static_cast<uint16_t>(n);
    done += n;
  }
  head->pkt_len = len;
  return head;
}

TranslateOptions options() {
  TranslateOptions o;
  o.internal = {"10.0.0.0/8"};
  return o;
}

}  // namespace

TEST_CASE("a written capture reads back to the nanosecond and the byte", "[capture]") {
  const test::NoLeak no_leak;
  const Folder folder;
  const std::string path = folder.file("a.pcap");
  {
    CaptureWriter w(path, 1);
    for (uint32_t i = 1; i <= 1000; ++i) {
      const auto p = packet(20 + i, static_cast<uint16_t>(1 + i % 3));
      w.write(1'700'000'000s + 1ns * i, *p, i % 10);
    }
    REQUIRE_FALSE(fs::exists(path));
    w.commit();
    REQUIRE(w.packets() == 1000);
  }
  REQUIRE(folder.count() == 1);
  CaptureReader r(path);
  REQUIRE(r.link() == pxio::Link::kEthernet);
  CaptureRecord rec;
  for (uint32_t i = 1; i <= 1000; ++i) {
    REQUIRE(r.next(rec));
    REQUIRE(rec.stamp == 1'700'000'000s + 1ns * i);
    REQUIRE(rec.len == 20 + i);
    REQUIRE(rec.wire_len == rec.len + i % 10);
    for (uint32_t k = 0; k < rec.len; ++k) REQUIRE(rec.data[k] == static_cast<uint8_t>(k));
  }
  REQUIRE_FALSE(r.next(rec));
}

TEST_CASE("a capture that isn't committed leaves the target as it was", "[capture]") {
  const Folder folder;
  const std::string path = folder.file("a.pcap");
  std::ofstream(path) << "old";
  {
    CaptureWriter w(path, 101);
    const auto p = packet(100, 1);
    w.write(1s, *p, 0);
  }
  REQUIRE(folder.count() == 1);
  std::string text;
  std::ifstream(path) >> text;
  REQUIRE(text == "old");
}

TEST_CASE("a capture cut short says so behind the packets that are whole", "[capture]") {
  const Folder folder;
  const std::string path = folder.file("a.pcap");
  {
    CaptureWriter w(path, 1);
    for (int i = 0; i < 3; ++i) w.write(1s, *packet(100, 1), 0);
    w.commit();
  }
  fs::resize_file(path, fs::file_size(path) - 1);
  CaptureReader r(path);
  CaptureRecord rec;
  REQUIRE(r.next(rec));
  REQUIRE(r.next(rec));
  REQUIRE_THROWS_WITH(r.next(rec),
                      Catch::Contains("cut short behind packet 2") && Catch::Contains(path));
}

TEST_CASE("options out of range are named", "[translate]") {
  REQUIRE_NOTHROW(make_policy(options()));
  auto o = options();
  o.inside_mtu = 1500;
  REQUIRE_THROWS_WITH(make_policy(o), Catch::Contains("--inside-mtu 1500"));
  o = options();
  o.outside_mtu = 1279;
  REQUIRE_THROWS_WITH(make_policy(o), Catch::Contains("1280"));
  o = options();
  o.internal = {"10.0.0.1/8"};
  REQUIRE_THROWS_WITH(make_policy(o), Catch::Contains("10.0.0.0/8"));
  o.internal.clear();
  REQUIRE_THROWS_WITH(make_policy(o), Catch::Contains("--internal"));
  o = options();
  o.inside_mss = 8960;
  REQUIRE(make_policy(o).assume_inside_mss == 8960);
  REQUIRE(make_policy(o).sides == Sides::kByPrefix);
}
