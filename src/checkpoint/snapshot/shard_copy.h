#pragma once
// Shards on their way from a host's own disk into the run folder, in the background, every byte checked against the
// manifest: damaged data never becomes a checkpoint.

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/time.h"
#include "checkpoint/snapshot/manifest.h"
#include "comm/heartbeat.h"

namespace trireme {

class ShardCopy {
 public:
  struct Order {
    std::string from, to;         ///< folders; `to` is made if need be
    std::vector<size_t> shards;   ///< of the manifest; with the first one goes tokenizer.json
    double bytes_per_second = 0;  ///< 0: no limit
  };
  /// Starts at once. Borrows manifest and progress, which may be null and advances with the bytes written.
  ShardCopy(Order order, const Manifest& manifest, Heartbeat* heartbeat);
  /// Abandons the remaining work.
  ~ShardCopy();
  ShardCopy(const ShardCopy&) = delete;
  ShardCopy& operator=(const ShardCopy&) = delete;

  bool idle() const { return done_; }
  /// Waits for idle(), for so long at most; returns it.
  bool wait(double seconds) const;
  uint64_t bytes() const { return bytes_; }  ///< to be copied
  uint64_t copied() const { return copied_; }
  void lift_limit();
  /// Once it is idle: the error, or empty.
  const std::string& failure();

 private:
  void run();
  void copy(size_t shard);
  void pace(size_t bytes);

  const Order order_;
  const Manifest& manifest_;
  Heartbeat* const heartbeat_;
  uint64_t bytes_ = 0;
  double rate_ = 0;
  bool cancelled_ = false;
  std::atomic<uint64_t> copied_ = 0;
  std::atomic<bool> done_ = false;
  std::string failure_;
  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;  ///< of rate_, cancelled_ and a change of done_ that is waited for
  mutable std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace trireme
