// SPDX-License-Identifier: BSD-3-Clause
#include "pxgw/ctl/control_server.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "pxgw/ctl/log.h"

namespace pxgw {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using boost::system::error_code;

constexpr size_t kMaxRequest = 4096;
constexpr int kMaxConnections = 16;
constexpr auto kPatience = std::chrono::seconds(10);

Protocol::endpoint endpoint_of(const std::string& path) {
  if (path.empty() || path.size() > 107)
    throw std::runtime_error(fmt::format(
        "{}: a socket's path has 1 to 107 bytes; give another by `control:` or --control", path));
  return Protocol::endpoint(path);
}

bool is_socket(const std::string& path) {
  struct stat st;
  return lstat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode);
}

void make_directory(const std::string& path) {
  const auto dir = std::filesystem::path(path).parent_path();
  if (dir.empty() || std::filesystem::exists(dir)) return;
  std::error_code error;
  std::filesystem::create_directories(dir.parent_path(), error);
  if (!error && mkdir(dir.c_str(), 0750) != 0 && errno != EEXIST)
    error = std::error_code(errno, std::generic_category());
  if (error)
    throw std::runtime_error(
        fmt::format("{}: can't be made ({}); give another socket by `control:` or --control",
                    dir.string(), error.message()));
}

// Root, and whoever runs the gateway.
bool may_ask(Protocol::socket& socket) {
  ucred peer{};
  socklen_t len = sizeof peer;
  if (getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) return false;
  return peer.uid == 0 || peer.uid == geteuid();
}

}  // namespace

// One connection; lives as long as an operation on it is under way.
class ControlServer::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, ControlServer& server)
      : socket_(std::move(socket)),
        timer_(socket_.get_executor()),
        server_(server),
        open_(server.open_),
        buffer_(kMaxRequest) {
    ++*open_;
  }
  ~Session() { --*open_; }

  void read() {
    start_timer();
    asio::async_read_until(
        socket_, buffer_, '\n', [self = shared_from_this()](error_code error, size_t n) {
          if (error == asio::error::not_found)
            return self->answer({{"error", "the request is longer than 4 KiB"}}, true);
          if (error) return self->close();
          const auto* begin = static_cast<const char*>(self->buffer_.data().data());
          const std::string line(begin, n);
          self->buffer_.consume(n);
          self->answer(self->handle(line), false);
        });
  }

 private:
  Json handle(const std::string& line) {
    try {
      const Json request = Json::parse(line);
      if (!request.is_object())
        return {{"error", "a request is an object, as {\"cmd\":\"stats\"}"}};
      return server_.handler_(request);
    } catch (const Json::exception&) {
      return {{"error", "a request is one line of JSON, as {\"cmd\":\"stats\"}"}};
    } catch (const std::exception& e) {
      return {{"error", e.what()}};
    }
  }

  void answer(const Json& reply, bool last) {
    reply_ = reply.dump(-1, ' ', false, Json::error_handler_t::replace) + '\n';
    start_timer();
    asio::async_write(socket_, asio::buffer(reply_),
                      [self = shared_from_this(), last](error_code error, size_t) {
                        if (error || last) return self->close();
                        self->read();
                      });
  }

  // A connection on which nothing moves for this long is closed.
  void start_timer() {
    timer_.expires_after(kPatience);
    timer_.async_wait([weak = weak_from_this()](error_code error) {
      if (error) return;
      if (const auto self = weak.lock()) self->close();
    });
  }

  void close() {
    error_code ignored;
    timer_.cancel(ignored);
    socket_.close(ignored);
  }

  Protocol::socket socket_;
  asio::steady_timer timer_;
  ControlServer& server_;
  const std::shared_ptr<int> open_;  // outlives the server
  asio::streambuf buffer_;
  std::string reply_;
};

ControlServer::ControlServer(asio::io_context& io, std::string path, Handler handler)
    : acceptor_(io), retry_(io), path_(std::move(path)), handler_(std::move(handler)) {
  const auto endpoint = endpoint_of(path_);
  make_directory(path_);
  struct stat st;
  if (lstat(path_.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode))
      throw std::runtime_error(fmt::format(
          "{}: exists and is no socket; remove it, or give another path by `control:` or --control",
          path_));
    error_code error;
    Protocol::socket probe(io);
    probe.connect(endpoint, error);
    if (error != asio::error::connection_refused)
      throw std::runtime_error(fmt::format(
          "{}: {}; stop it, or give this one another path by `control:` or --control", path_,
          error ? fmt::format("is in use or can't be reached ({})", error.message())
                : "another pxgw serves it"));
    unlink(path_.c_str());  // left behind by one that was killed
  }
  listen();
  accept();
}

ControlServer::~ControlServer() {
  struct stat st;
  if (inode_ != 0 && lstat(path_.c_str(), &st) == 0 && st.st_ino == inode_) unlink(path_.c_str());
}

void ControlServer::listen() {
  error_code error;
  acceptor_.open(Protocol(), error);
  const mode_t before = umask(0177);  // 0600 from the first moment
  if (!error) acceptor_.bind(endpoint_of(path_), error);
  umask(before);
  if (!error) acceptor_.listen(kMaxConnections, error);
  if (error)
    throw std::runtime_error(
        fmt::format("{}: can't be listened on ({}); give another path by `control:` or --control",
                    path_, error.message()));
  struct stat st;
  if (lstat(path_.c_str(), &st) == 0) inode_ = st.st_ino;
}

void ControlServer::accept() {
  acceptor_.async_accept([this](error_code error, Protocol::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) {
      log(Level::kWarning, "{}: a connection was not accepted ({})", path_, error.message());
      retry_.expires_after(std::chrono::seconds(1));
      retry_.async_wait([this](error_code cancelled) {
        if (!cancelled) accept();
      });
      return;
    }
    if (*open_ < kMaxConnections && may_ask(socket)) {
      std::make_shared<Session>(std::move(socket), *this)->read();
    }
    accept();
  });
}

Json ask(const std::string& path, const Json& request) {
  asio::io_context io;
  Protocol::socket socket(io);
  error_code error;
  socket.connect(endpoint_of(path), error);
  if (error) {
    if (error == boost::system::errc::permission_denied)
      throw std::runtime_error(
          fmt::format("{}: no right to ask this gateway; run as root, or as its user", path));
    throw std::runtime_error(
        fmt::format("{}: no gateway runs here{}; start one by `pxgw run CONFIG`, or name its "
                    "socket by --control",
                    path, is_socket(path) ? "" : " (no socket)"));
  }
  const timeval patience = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  setsockopt(socket.native_handle(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const std::string line = request.dump() + '\n';
  std::string reply;
  bool ok = send(socket.native_handle(), line.data(), line.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(line.size());
  // Plain calls, so that the time limits above hold.
  while (ok && (reply.empty() || reply.back() != '\n')) {
    char chunk[16384];
    const ssize_t n = recv(socket.native_handle(), chunk, sizeof chunk, 0);
    ok = n > 0 && reply.size() < (1u << 22);
    if (ok) reply.append(chunk, static_cast<size_t>(n));
  }
  if (!ok)
    throw std::runtime_error(fmt::format(
        "{}: the gateway gave no answer; it may be stopping or not allow this user", path));
  Json answer = Json::parse(reply, nullptr, false);
  if (!answer.is_object())
    throw std::runtime_error(fmt::format(
        "{}: the answer isn't one of a gateway; is it pxgw that serves this socket?", path));
  if (answer.contains("error"))
    throw std::runtime_error(fmt::format("{}: {}", path, answer["error"].dump()));
  return answer;
}

}  // namespace pxgw
