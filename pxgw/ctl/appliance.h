// SPDX-License-Identifier: BSD-3-Clause
// A gateway at work: buffers, ports, workers and their threads, from a configuration. Owned by the
// main thread; one a process, since it starts DPDK.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pxgw/ctl/config.h"
#include "pxgw/ctl/path_prober.h"
#include "pxgw/ctl/poll_thread.h"
#include "pxgw/ctl/stats.h"
#include "pxgw/ctl/tx_watchdog.h"
#include "pxgw/ctl/worker_watchdog.h"
#include "pxgw/dp/caravan_stage.h"
#include "pxgw/dp/fan_out.h"
#include "pxgw/dp/worker.h"
#include "pxio/ctl/eal.h"
#include "pxio/dp/port.h"

namespace pxgw {

// Buffers enough for all that can be under way at once, so that holding packets never starves a
// port.
struct BufferPlan {
  uint32_t small = 0, large = 0;
  uint32_t memory_mb = 0;  // of both, with what DPDK needs beside them
  uint32_t memory_4k_mb = 0;  // the same without hugepages
  std::string text;        // how it comes about
};
BufferPlan plan_buffers(const Config& config);
// Sizes of one worker's tables for one pair.
Capacity capacity_of(const Config& config);

class Appliance {
 public:
  // Starts all of it; traffic flows when it returns. Logs what was chosen. Throws
  // std::runtime_error.
  explicit Appliance(const Config& config);
  ~Appliance();
  Appliance(const Appliance&) = delete;
  Appliance& operator=(const Appliance&) = delete;

  // Hands the policy keys of `config` to the workers, which take them over within a millisecond.
  void apply(const Config& config);
  // Whether all workers have taken over the last policy; frees those that no one reads any more.
  bool settled();

  Counters counters() const;  // of all workers
  Json stats() const;         // what `pxgw stats --json` prints

  // Takes what the workers report and goes on with probing paths. Returns after how long to call it again.
  std::chrono::nanoseconds exchange();
  // Answers {"what": "list" | "show" | "probe" | "flush", "to": address}. Throws std::runtime_error.
  Json pmtu(const Json& request);

  // Answers {"what": "hosts"}. Throws std::runtime_error.
  Json caravan(const Json& request) const;

  // Looks after the ports; once a second or so. A port whose NIC was reset, or whose interface was made anew, is
  // started again, and workers pause meanwhile. Throws std::runtime_error where that fails, or a port's device is gone.
  void watch();

  // Drains and ends the workers, closes the ports. Returns how many buffers aren't back in their
  // pools.
  uint32_t stop();

 private:
  struct NamedPort {
    std::string name, side;
    std::unique_ptr<pxio::Port> port;
    bool away = false;  // and the log says so
  };
  void open_ports();
  NamedPort open_port(const PortConfig& p, const char* side, uint16_t merge_mtu);
  void share_out(NamedPort& outside, NamedPort& inside);
  void start_workers();
  void start_threads();
  void stop_threads();
  void mend();
  std::unique_ptr<const PolicySet> make_policies(const Config& config) const;
  PathProber::Options prober_options(const Config& config) const;
  void start_prober();
  void make_caravan_hosts();
  void set_caravan_hosts(const Config& config);
  void add_stages(Worker& worker);
  bool tell(uint16_t worker, const Command& c);
  bool transmit(uint16_t worker, uint8_t pair, std::span<const uint8_t> frame);

  const Config config_;  // as it was at start
  const pxio::FlowHash flow_hash_;
  cpu_set_t cpus_;       // that the process had before DPDK started
  uint64_t generation_ = 0;
  std::unique_ptr<pxio::BufferPools> pools_;
  std::vector<NamedPort> ports_;  // outside and inside of each pair, in turn
  TxWatchdog watchdog_;           // of them, in the same order
  std::vector<std::unique_ptr<const PolicySet>> policies_;  // the last one is current
  std::unique_ptr<CaravanHosts> caravan_hosts_;
  std::vector<Prefix> configured_hosts_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<PollThread>> threads_;  // one a worker
  FanOut fan_out_;
  std::unique_ptr<PollThread> fan_out_thread_;  // null: no port needs it
  WorkerWatchdog worker_watchdog_;
  std::optional<fpmtud::Key> probe_key_;
  std::unique_ptr<PathProber> prober_;
  std::vector<bool> to_wake_;  // workers that were told something
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<Counters> last_;  // once stopped
};

}  // namespace pxgw
