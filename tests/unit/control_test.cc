// SPDX-License-Identifier: BSD-3-Clause
// What lies between the control thread and its surroundings: the socket, and the workers' counters.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "pxgw/ctl/appliance.h"
#include "pxgw/ctl/control_server.h"
#include "pxgw/dp/worker.h"

using namespace pxgw;

namespace {

class TempDir {
 public:
  TempDir() {
    char name[] = "/tmp/pxgw-test-XXXXXX";
    REQUIRE(mkdtemp(name) != nullptr);
    path_ = name;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A server that answers in a thread of its own, with what it was asked.
class Echo {
 public:
  explicit Echo(const std::string& path)
      : server_(io_, path,
                [](const Json& request) {
                  return Json({{"asked", request}});
                }),
        thread_([this] { io_.run(); }) {}
  ~Echo() {
    io_.stop();
    thread_.join();
  }

 private:
  boost::asio::io_context io_;
  ControlServer server_;
  std::thread thread_;
};

int connect_to(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, sizeof to.sun_path - 1);
  REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
  return fd;
}

// Sends the bytes as they are; the first line of the answer.
std::string talk(const std::string& path, const std::string& bytes) {
  const int fd = connect_to(path);
  send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::string reply;
  char c;
  while (recv(fd, &c, 1, 0) == 1 && c != '\n') reply += c;
  close(fd);
  return reply;
}

}  // namespace

TEST_CASE("control: a request is answered, and the socket is its owner's alone") {
  const TempDir dir;
  const std::string path = dir / "made/pxgw.sock";
  {
    const Echo echo(path);
    struct stat st;
    REQUIRE(stat(path.c_str(), &st) == 0);
    CHECK((st.st_mode & 0777) == 0600);
    REQUIRE(stat((dir / "made").c_str(), &st) == 0);
    CHECK((st.st_mode & 0007) == 0);
    CHECK(ask(path, {{"cmd", "x"}}) == Json({{"asked", {{"cmd", "x"}}}}));
  }
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("control: nonsense gets an answer, and the next request works") {
  const TempDir dir;
  const std::string path = dir / "s";
  const Echo echo(path);
  CHECK_THAT(talk(path, "nonsense\n"), Catch::Contains("one line of JSON"));
  CHECK_THAT(talk(path, "[1]\n"), Catch::Contains("a request is an object"));
  CHECK_THAT(talk(path, "\n"), Catch::Contains("error"));
  CHECK_THAT(talk(path, std::string(5000, 'x')), Catch::Contains("longer than 4 KiB"));
  CHECK(talk(path, "{\"a\":\"\xff\"}\n").find("error") != std::string::npos);
  CHECK_NOTHROW(ask(path, {{"cmd", "x"}}));
}

TEST_CASE("control: connections are bounded, and come free again") {
  const TempDir dir;
  const std::string path = dir / "s";
  const Echo echo(path);
  std::vector<int> fds;
  for (int i = 0; i < 16; ++i) fds.push_back(connect_to(path));
  CHECK_THROWS_WITH(ask(path, {{"cmd", "x"}}), Catch::Contains("gave no answer"));
  for (const int fd : fds) close(fd);
  bool answered = false;
  for (int i = 0; i < 100 && !answered; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    try {
      ask(path, {{"cmd", "x"}});
      answered = true;
    } catch (const std::exception&) {
    }
  }
  CHECK(answered);
}

TEST_CASE("control: what may stand in the way of the socket") {
  const TempDir dir;
  const std::string path = dir / "s";
  boost::asio::io_context io;
  const auto serve = [&](const std::string& at) {
    ControlServer(io, at, [](const Json&) { return Json(); });
  };
  SECTION("a gateway that runs") {
    const Echo echo(path);
    CHECK_THROWS_WITH(serve(path), Catch::Contains("another pxgw serves it"));
    CHECK_NOTHROW(ask(path, {{"cmd", "x"}}));
  }
  SECTION("the socket of one that was killed") {
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    REQUIRE(bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
    close(fd);
    CHECK_THROWS_WITH(ask(path, {{"cmd", "x"}}), Catch::Contains("no gateway runs here"));
    CHECK_NOTHROW(serve(path));
  }
  SECTION("a file") {
    std::ofstream(path) << "precious";
    CHECK_THROWS_WITH(serve(path), Catch::Contains("exists and is no socket"));
    CHECK(std::filesystem::file_size(path) == 8);
  }
  SECTION("a path that is too long") {
    CHECK_THROWS_WITH(serve(dir / std::string(108, 'x')), Catch::Contains("1 to 107 bytes"));
  }
  SECTION("a directory that can't be") {
    std::ofstream(dir / "file") << "x";
    CHECK_THROWS_WITH(serve(dir / "file/s"), Catch::Contains("by `control:` or --control"));
  }
}

TEST_CASE("worker: counters that are read while they are written are whole") {
  PublishedCounters published;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    Counters c;
    while (!stop.load()) {
      ++c.in_pkts;
      c.engine.flow_aged = c.handshakes = c.hold[3] = c.in_pkts;
      published.store(c);
      // As a worker does other work in between. As long as a reader needs, whatever the build: else
      // a slow one would never find an instant without a write.
      for (int pause = 0; pause < 3; ++pause) published.load();
    }
  });
  bool whole = true;
  uint64_t last = 0;
  for (int i = 0; i < 20000; ++i) {
    const Counters c = published.load();
    whole &= c.in_pkts == c.engine.flow_aged && c.in_pkts == c.handshakes && c.in_pkts == c.hold[3];
    whole &= c.in_pkts >= last;
    last = c.in_pkts;
  }
  stop = true;
  writer.join();
  CHECK(whole);
}

TEST_CASE("appliance: buffers cover what can be under way, as said or as computed") {
  const std::string pair = "pairs: [{outside: {device: a}, inside: {device: b}}]\n";
  const Config one = parse_config(pair, "f");
  const Config two = parse_config(pair + "workers: 2\n", "f");
  const BufferPlan a = plan_buffers(one), b = plan_buffers(two);
  CHECK(a.small > 2048 * 6);
  CHECK(b.small > a.small);
  CHECK(b.large > a.large);
  const BufferPlan said =
      plan_buffers(parse_config(pair + "buffers: {small: 5000, large: 2000}\n", "f"));
  CHECK(said.small == 5000);
  CHECK(said.large == 2000);
  CHECK(uint64_t{said.memory_mb} << 20 > 5000u * 2304u + 2000u * 9856u);
  CHECK(capacity_of(one).flows == 1u << 20);
  CHECK(capacity_of(two).flows == 1u << 19);
}
