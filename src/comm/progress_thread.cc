#include "comm/progress_thread.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "base/affinity.h"
#include "base/error.h"
#include "comm/heartbeat.h"

namespace trireme {
namespace {

constexpr auto kShortestSleep = std::chrono::microseconds(20);

}  // namespace

/// The thread and its state. Events share it.
class ProgressThread::Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(Heartbeat* heartbeat, std::vector<int> cpus, const Pace& pace)
      : heartbeat_(heartbeat), cpus_(std::move(cpus)), pace_(pace) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { assert(!thread_.joinable()); }

  void start() {
    thread_ = std::thread([this] { run(); });
  }

  Lane make_lane() {
    const std::lock_guard lock(mutex_);
    posted_.emplace_back();
    return posted_.size() - 1;
  }

  Event post(Lane lane, std::unique_ptr<Operation> operation, Event after) {
    auto done = std::make_shared<Done>(shared_from_this());
    {
      const std::lock_guard lock(mutex_);
      if (!error_) posted_[lane].push_back({std::move(operation), std::move(after), done});
      ++calls_;
    }
    wake_.notify_all();
    return Event(std::move(done));
  }

  bool end() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
    return !error_;
  }

 private:
  struct Done final : Event::State {
    explicit Done(std::shared_ptr<Worker> of) : worker(std::move(of)) {}
    void wait() override { worker->wait_for(*this); }
    bool reached() override { return is_done; }

    std::shared_ptr<Worker> worker;
    std::atomic<bool> is_done = false;
  };
  struct Work {
    std::unique_ptr<Operation> operation;
    Event after;
    std::shared_ptr<Done> done;
    bool ended = false;
  };
  /// A lane's operations that the thread has taken.
  struct Taken {
    std::deque<Work> waiting, under_way;
  };
  /// A time without progress, and the number of calls when it began.
  struct Quiet {
    Clock::time_point since = Clock::now();
    uint64_t calls = 0;
  };

  void wait_for(const Done& done) {
    if (done.is_done) return;
    std::unique_lock lock(mutex_);
    ++waiters_;
    ++calls_;
    wake_.notify_all();
    done_.wait(lock, [&] { return done.is_done || error_; });
    --waiters_;
    if (!done.is_done) std::rethrow_exception(error_);
  }

  void run() {
    try {
      const CpuAccount::Thread counted(heartbeat_ ? &heartbeat_->cpu() : nullptr, ThreadKind::exchange);
      if (!cpus_.empty()) pin_this_thread(cpus_);
      Quiet quiet;
      while (!stop_) {
        take(quiet);
        if (turn()) {
          if (heartbeat_) heartbeat_->move();
          quiet = {Clock::now(), quiet.calls};
        } else {
          rest(quiet);
        }
      }
      take(quiet);
      while (turn()) take(quiet);  // what needs no other rank
      if (has_work()) fail(ErrorKind::comm, "the exchange with other ranks was aborted before its end");
    } catch (...) {
      for (Taken& lane : lanes_) {
        for (Work& work : lane.under_way) work.operation->abandon();
        if (!lane.waiting.empty()) lane.waiting.front().operation->abandon();  // its begin() may have failed
      }
      const std::lock_guard lock(mutex_);
      lanes_.clear();
      for (auto& lane : posted_) lane.clear();
      error_ = std::current_exception();
      done_.notify_all();
    }
  }

  /// Takes what was posted. New calls end the quiet.
  void take(Quiet& quiet) {
    if (calls_ == quiet.calls) return;
    const std::lock_guard lock(mutex_);
    quiet = {Clock::now(), calls_};
    lanes_.resize(posted_.size());
    for (size_t i = 0; i < posted_.size(); ++i) {
      std::ranges::move(posted_[i], std::back_inserter(lanes_[i].waiting));
      posted_[i].clear();
    }
  }

  /// One round over all operations. True: progress.
  bool turn() {
    bool moved = false;
    ++turn_;
    for (Taken& lane : lanes_) {
      while (!lane.waiting.empty() && lane.waiting.front().after.reached() && lane.waiting.front().operation->begin()) {
        lane.under_way.push_back(std::move(lane.waiting.front()));
        lane.waiting.pop_front();
        moved = true;
      }
      moved = advance(lane) || moved;
    }
    return moved;
  }

  bool advance(Taken& lane) {
    bool moved = false, first = true;
    for (Work& work : lane.under_way) {
      if (!work.ended) {
        const Progress progress = work.operation->advance({turn_, first});
        moved = moved || progress != Progress::none;
        work.ended = progress == Progress::done;
      }
      first = first && work.ended;
    }
    for (; !lane.under_way.empty() && lane.under_way.front().ended; lane.under_way.pop_front())
      tell(*lane.under_way.front().done);
    return moved;
  }

  void tell(Done& done) {
    done.is_done = true;
    // Who waits has counted itself before it looked at is_done.
    if (waiters_ == 0) return;
    { const std::lock_guard lock(mutex_); }
    done_.notify_all();
  }

  bool has_work() const {
    return std::ranges::any_of(lanes_,
                               [](const Taken& lane) { return !lane.waiting.empty() || !lane.under_way.empty(); });
  }

  /// Without progress: polls again at once, or after a while; without work, after the next call.
  void rest(const Quiet& quiet) {
    const auto called = [&] { return stop_ || calls_ != quiet.calls; };
    if (!has_work()) {
      std::unique_lock lock(mutex_);
      return wake_.wait(lock, called);
    }
    const Clock::duration idle = Clock::now() - quiet.since;
    if (idle < (waiters_ > 0 ? pace_.awaited : pace_.patience)) return std::this_thread::yield();
    const Clock::duration sleep =
        std::clamp<Clock::duration>(idle / pace_.sleep_part, kShortestSleep, pace_.longest_sleep);
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, sleep, called);
  }

  Heartbeat* heartbeat_;
  const std::vector<int> cpus_;
  const Pace pace_;
  std::deque<Taken> lanes_;  ///< the thread's, as the next one
  uint64_t turn_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::vector<std::vector<Work>> posted_;  ///< by lane, not taken yet
  std::atomic<uint64_t> calls_ = 0;        ///< posts and waits; changed under the mutex, as the next two
  std::atomic<int> waiters_ = 0;
  std::atomic<bool> stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

ProgressThread::ProgressThread(Heartbeat* heartbeat, std::vector<int> cpus, const Pace& pace)
    : worker_(std::make_shared<Worker>(heartbeat, std::move(cpus), pace)) {
  worker_->start();
}

ProgressThread::~ProgressThread() { end(); }

ProgressThread::Lane ProgressThread::make_lane() { return worker_->make_lane(); }

Event ProgressThread::post(Lane lane, std::unique_ptr<Operation> operation, Event after) {
  return worker_->post(lane, std::move(operation), std::move(after));
}

bool ProgressThread::end() { return worker_->end(); }

}  // namespace trireme
