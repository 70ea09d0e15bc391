#include "comm/async_messenger.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/affinity.h"
#include "comm/heartbeat.h"

namespace trireme {
namespace {

// The thread may share its core with a compute thread, so it sleeps between polls once nothing has arrived for a while.
constexpr int kLooks = 50;
constexpr auto kFirstSleep = std::chrono::microseconds(10);
constexpr auto kLongestSleep = std::chrono::microseconds(500);

}  // namespace

class AsyncMessenger::Worker {
 public:
  Worker(Heartbeat* heartbeat, std::vector<int> cpus)
      : heartbeat_(heartbeat), cpus_(std::move(cpus)), thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { assert(!thread_.joinable()); }

  /// Ends the thread; abandons messages that are not done.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    for (auto& [ticket, handle] : on_their_way_) handle.abandon();
  }

  Ticket post(std::function<Handle()> start) {
    Ticket ticket;
    {
      const std::lock_guard lock(mutex_);
      ticket = ++posted_;
      pending_.push_back(ticket);
      starts_.emplace_back(ticket, std::move(start));
    }
    wake_.notify_all();
    return ticket;
  }

  void wait(Ticket ticket, const char* what, uint64_t bytes) {
    const auto is_done = [&] { return std::ranges::find(pending_, ticket) == pending_.end(); };
    std::unique_lock lock(mutex_);
    if (!error_ && is_done()) return;
    const Waiting waiting(heartbeat_, what, bytes);
    done_.wait(lock, [&] { return error_ || is_done(); });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run() {
    try {
      if (!cpus_.empty()) pin_this_thread(cpus_);
      int idle = 0;
      auto sleep = kFirstSleep;
      while (take_starts(idle > kLooks ? sleep : std::chrono::microseconds(0))) {
        if (look()) {
          idle = 0;
          sleep = kFirstSleep;
        } else if (++idle > kLooks) {
          sleep = std::min(sleep * 2, kLongestSleep);
        } else {
          std::this_thread::yield();
        }
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      done_.notify_all();
    }
  }

  /// Starts what was posted. Without active messages it waits for a post, else for at most `patience`. False: stop.
  bool take_starts(std::chrono::microseconds patience) {
    std::unique_lock lock(mutex_);
    const auto woken = [&] { return stop_ || !starts_.empty(); };
    if (on_their_way_.empty()) {
      wake_.wait(lock, woken);
    } else if (patience.count() > 0) {
      wake_.wait_for(lock, patience, woken);
    }
    if (stop_) return false;
    while (!starts_.empty()) {
      auto [ticket, start] = std::move(starts_.front());
      starts_.pop_front();
      lock.unlock();
      on_their_way_.emplace_back(ticket, start());
      lock.lock();
    }
    return true;
  }

  /// True: a message is done.
  bool look() {
    bool moved = false;
    for (auto& [ticket, handle] : on_their_way_) {
      if (!handle.test()) continue;
      moved = true;
      if (heartbeat_) heartbeat_->move();
      const std::lock_guard lock(mutex_);
      std::erase(pending_, ticket);
      ticket = 0;
    }
    if (!moved) return false;
    std::erase_if(on_their_way_, [](const auto& message) { return message.first == 0; });
    done_.notify_all();
    return true;
  }

  Heartbeat* heartbeat_;
  std::vector<int> cpus_;
  std::vector<std::pair<Ticket, Handle>> on_their_way_;  ///< used by the thread; after its end by stop()

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::pair<Ticket, std::function<Handle()>>> starts_;
  std::vector<Ticket> pending_;  ///< posted and not done
  Ticket posted_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

AsyncMessenger::AsyncMessenger(Heartbeat* heartbeat, std::vector<int> cpus)
    : worker_(std::make_unique<Worker>(heartbeat, std::move(cpus))) {}

AsyncMessenger::~AsyncMessenger() { worker_->stop(); }

AsyncMessenger::Ticket AsyncMessenger::post(std::function<Handle()> start) { return worker_->post(std::move(start)); }

void AsyncMessenger::wait(Ticket ticket, const char* what, uint64_t bytes) { worker_->wait(ticket, what, bytes); }

}  // namespace trireme
