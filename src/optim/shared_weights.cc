#include "optim/shared_weights.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/affinity.h"
#include "base/error.h"
#include "comm/heartbeat.h"

namespace trireme {

class SharedWeights::Worker {
 public:
  Worker(const TrainingState& state, Communicator& group, Ownership ownership, Device& device, std::vector<int> cpus)
      : state_(state),
        group_(group),
        ownership_(std::move(ownership)),
        gatherer_(group_, ownership_, [this] { check_stop(); }),
        device_(device),
        cpus_(std::move(cpus)),
        thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void need(ParameterRange range, ParameterRange next) {
    std::unique_lock lock(mutex_);
    ++look_up(range).readers;
    if (!next.empty()) look_up(next);
    const auto is_there = [&] { return error_ || look_up(range).there; };
    if (!is_there()) {
      const Waiting waiting(group_.heartbeat(), "the weights of the next layer", 0);
      arrived_.wait(lock, is_there);
    }
    if (error_) std::rethrow_exception(error_);
  }

  void done(ParameterRange range) {
    const std::lock_guard lock(mutex_);
    const auto layer = find(range);
    assert(layer != layers_.end() && layer->readers > 0);
    if (--layer->readers > 0) return;
    layers_.erase(layer);
    post(range, false);
  }

  uint64_t bytes_sent() const {
    const std::lock_guard lock(mutex_);
    return bytes_sent_;
  }

 private:
  struct Layer {
    ParameterRange weights;
    int readers = 0;
    bool there = false;
  };
  struct Task {
    ParameterRange weights;
    bool gathers = false;  ///< else they are released
    Event issued{};        ///< must follow this: owners' updates, the last layer that read them
  };

  // Under the mutex.
  std::vector<Layer>::iterator find(ParameterRange range) { return std::ranges::find(layers_, range, &Layer::weights); }
  /// Requests missing weights.
  Layer& look_up(ParameterRange range) {
    const auto found = find(range);
    if (found != layers_.end()) return *found;
    post(range, true);
    return layers_.emplace_back(Layer{range});
  }
  void post(ParameterRange range, bool gathers) {
    tasks_.push_back({range, gathers, device_.stream().record()});
    wake_.notify_all();
  }

  void run() {
    try {
      const CpuAccount::Thread counted(group_.heartbeat() ? &group_.heartbeat()->cpu() : nullptr, ThreadKind::exchange);
      if (!cpus_.empty()) pin_this_thread(cpus_);
      for (Task task; next_task(task);) {
        task.issued.wait();
        task.gathers ? gather(task.weights) : release(task.weights);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      arrived_.notify_all();
    }
  }

  /// False: the thread must end.
  bool next_task(Task& task) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || !tasks_.empty(); });
    if (stop_) return false;
    task = std::move(tasks_.front());
    tasks_.pop_front();
    return true;
  }

  void check_stop() const {
    if (stop_) fail(ErrorKind::comm, "the exchange of weights was aborted");
  }

  void gather(ParameterRange range) {
    gatherer_.gather(state_.weights(), range);
    const std::lock_guard lock(mutex_);
    bytes_sent_ = gatherer_.bytes_sent();
    find(range)->there = true;
    arrived_.notify_all();
  }

  void release(ParameterRange range) const {
    state_.for_passing_weights(range.begin, range.end, [&](int64_t first, int64_t count) {
      trireme::release(state_.weights().rows_slice(first, count));
    });
  }

  const TrainingState& state_;
  Communicator& group_;
  const Ownership ownership_;
  Gatherer gatherer_;
  Device& device_;
  std::vector<int> cpus_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, arrived_;
  std::deque<Task> tasks_;
  std::vector<Layer> layers_;  ///< present or in flight
  uint64_t bytes_sent_ = 0;
  std::atomic<bool> stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

SharedWeights::SharedWeights(const TrainingState& state, Communicator& group, Ownership ownership, Device& device,
                             std::vector<int> cpus)
    : worker_(std::make_unique<Worker>(state, group, std::move(ownership), device, std::move(cpus))) {}

SharedWeights::~SharedWeights() = default;

void SharedWeights::need(ParameterRange range, ParameterRange next) { worker_->need(range, next); }

void SharedWeights::done(ParameterRange range) { worker_->done(range); }

uint64_t SharedWeights::bytes_sent() const { return worker_->bytes_sent(); }

}  // namespace trireme
