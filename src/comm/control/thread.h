#pragma once
// Shared by both ends of the control channel: a thread that blocks all signals and a descriptor that wakes it.

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "base/time.h"
#include "comm/cpu_account.h"

namespace trireme {

class ControlThread {
 public:
  ControlThread() : wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ControlThread(const ControlThread&) = delete;
  ControlThread& operator=(const ControlThread&) = delete;
  ~ControlThread() { close(wake_); }

  /// account: counts what the thread uses; may be nullptr.
  void start(CpuAccount* account, std::function<void()> body) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([account, body = std::move(body)] {
      const CpuAccount::Thread counted(account, ThreadKind::control);
      body();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  /// Ends and joins.
  void stop() {
    ending_ = true;
    wake();
    if (thread_.joinable()) thread_.join();
  }
  void wake() const {
    const uint64_t one = 1;
    static_cast<void>(!::write(wake_, &one, sizeof one));
  }
  bool ending() const { return ending_; }

  /// poll() on `items` until something arrives, wake() or the limit. Appends the waking descriptor to them.
  void wait(std::vector<pollfd>& items, double limit_seconds) const {
    items.push_back({wake_, POLLIN, 0});
    poll(items.data(), items.size(), static_cast<int>(limit_seconds * 1e3));
    uint64_t count = 0;
    static_cast<void>(!::read(wake_, &count, sizeof count));
  }

 private:
  int wake_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

/// Seconds that hosts have to try their connections: a part of those after which a loss is certain.
inline double lookout_seconds(double hang_timeout) { return std::clamp(hang_timeout / 4, 0.25, 2.0); }

/// Seconds between heartbeats.
inline double heartbeat_interval(double hang_timeout) { return std::clamp(hang_timeout / 8, 0.05, 1.0); }

}  // namespace trireme
