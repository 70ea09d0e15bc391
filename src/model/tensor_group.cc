#include "model/tensor_group.h"

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/affinity.h"
#include "comm/progress.h"
#include "model/memory.h"

namespace trireme {
namespace {

enum Tag : int { kContribution = 1, kSum = 2, kStatistics = 3 };

/// Elements of x that member r of n adds up: all parts are equal but for one element.
View part_of(View x, int64_t r, int64_t n) {
  const int64_t begin = x.count() * r / n, end = x.count() * (r + 1) / n;
  return x.reshape({x.count()}).rows_slice(begin, end - begin);
}

int64_t longest_part(int64_t elements, int ranks) { return (elements + ranks - 1) / ranks; }

/// Contributions to the part that a rank adds up, and statistics of all ranks.
struct Buffers {
  Buffers(Arena& arena, int ranks, const TensorGroup::Sizes& sizes)
      : contributions(arena.take(sizes.dtype, {ranks * longest_part(sizes.elements, ranks)})),
        statistics(arena.take(stat_type(sizes.dtype), {ranks * 3 * std::max<int64_t>(1, sizes.rows)})) {}
  View contributions, statistics;
};

}  // namespace

/// The thread and everything that it touches. It does one thing at a time.
class TensorGroup::Worker {
 public:
  Worker(Communicator& group, Ops& ops, const Sizes& sizes, std::vector<int> cpus)
      : group_(group),
        ops_(ops),
        arena_(bytes_for(group.size(), sizes)),
        buffers_(arena_, group.size(), sizes),
        cpus_(std::move(cpus)),
        thread_([this] { run(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { assert(!thread_.joinable()); }

  /// Ends the thread. False: it has failed, or is in the middle of something.
  bool stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    return !error_;
  }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  uint64_t bytes_sent() const { return bytes_sent_; }

  void start(Context& context, View x) {
    if (x.count() == 0) return;
    const View own = part_of(x, rank(), size()), parts = parts_like(own);
    ops_.cast(context, own, parts.rows_slice(rank(), 1));
    post([this, x, own, parts] { add_up(x, own, parts); }, x.bytes());
  }

  void finish() {
    const Waiting waiting(group_.progress(), "a layer's sum over the tensor ranks", bytes_);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return !job_ || error_; });
    if (error_) std::rethrow_exception(error_);
  }

  void combine(Context& context, View max, View sum, View target) {
    const int64_t rows = max.rows(), own = 3 * rows;
    const View all = buffers_.statistics.rows_slice(0, size() * own);
    View mine = all.rows_slice(rank() * own, own);
    for (const View& from : {max, sum, target}) {
      ops_.cast(context, from, mine.rows_slice(0, rows));
      if (mine.rows() > rows) mine = mine.rows_slice(rows, mine.rows() - rows);
    }
    post([this, all, own] { exchange_statistics(all, own); }, all.bytes());
    finish();
    ops_.softmax_combine(context, all.reshape({size(), 3, rows}), max, sum, target);
  }

 private:
  void post(std::function<void()> job, uint64_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      assert(!job_);
      job_ = std::move(job);
      bytes_ = bytes;
    }
    wake_.notify_all();
  }

  void run() {
    try {
      if (!cpus_.empty()) pin_this_thread(cpus_);
      while (true) {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || job_; });
        if (stop_) return;
        lock.unlock();
        job_();
        lock.lock();
        job_ = nullptr;
        done_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      done_.notify_all();
    }
  }

  template <class Do>
  void for_peers(Do action) const {
    for (int r = 0; r < size(); ++r) {
      if (r != rank()) action(r);
    }
  }

  void send(std::vector<Handle>& handles, ConstView x, int peer, int tag) {
    handles.push_back(group_.send(x, peer, tag));
    bytes_sent_ += x.bytes();
  }

  void wait(std::vector<Handle>& handles) {
    for (Handle& handle : handles) {
      handle.wait("a layer's sum over the tensor ranks");
      if (group_.progress()) group_.progress()->move();
    }
    handles.clear();
  }

  /// Everyone's contribution to a part of so many elements.
  View parts_like(View own) const {
    return buffers_.contributions.rows_slice(0, size() * own.count()).reshape({size(), own.count()});
  }

  /// Every member adds up a part of x and sends it to all.
  void add_up(View x, View own, View parts) {
    std::vector<Handle> handles;
    for_peers([&](int r) { handles.push_back(group_.receive(parts.rows_slice(r, 1), r, kContribution)); });
    for_peers([&](int r) { send(handles, part_of(x, r, size()), r, kContribution); });
    wait(handles);
    Context alone;
    ops_.sum_parts(alone, parts, own);
    for_peers([&](int r) { handles.push_back(group_.receive(part_of(x, r, size()), r, kSum)); });
    for_peers([&](int r) { send(handles, own, r, kSum); });
    wait(handles);
  }

  void exchange_statistics(View all, int64_t own) {
    std::vector<Handle> handles;
    for_peers([&](int r) { handles.push_back(group_.receive(all.rows_slice(r * own, own), r, kStatistics)); });
    for_peers([&](int r) { send(handles, all.rows_slice(rank() * own, own), r, kStatistics); });
    wait(handles);
  }

  Communicator& group_;
  Ops& ops_;
  Arena arena_;
  Buffers buffers_;
  std::vector<int> cpus_;
  std::atomic<uint64_t> bytes_sent_ = 0;
  uint64_t bytes_ = 0;  ///< of the job

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::function<void()> job_;  ///< none: nothing to do
  bool stop_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

TensorGroup::TensorGroup(Communicator& group, Ops& ops, const Sizes& sizes, std::vector<int> cpus)
    : worker_(std::make_unique<Worker>(group, ops, sizes, std::move(cpus))) {}

TensorGroup::~TensorGroup() {
  // After a failure MPI may still write into buffers that it was given: they stay until the process ends.
  if (!worker_->stop()) static_cast<void>(worker_.release());
}

size_t TensorGroup::bytes_for(int ranks, const Sizes& sizes) {
  Arena measure;
  (void)Buffers(measure, ranks, sizes);
  return measure.peak();
}

int TensorGroup::rank() const { return worker_->rank(); }
int TensorGroup::size() const { return worker_->size(); }
void TensorGroup::start_sum(Context& context, View x) { worker_->start(context, x); }
void TensorGroup::finish_sum() { worker_->finish(); }
void TensorGroup::combine(Context& context, View max, View sum, View target) {
  worker_->combine(context, max, sum, target);
}
uint64_t TensorGroup::bytes_sent() const { return worker_->bytes_sent(); }

}  // namespace trireme
