#include "model/tensor_group.h"

#include <atomic>
#include <cassert>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/affinity.h"
#include "comm/heartbeat.h"
#include "model/memory.h"

namespace trireme {
namespace {

enum Tag : int { kContribution = 1, kSum = 2, kStatistics = 3, kRows = 4 };

constexpr int64_t kGradients = int64_t{1} << 18;  // that are summed together: small ones are packed

/// Elements of x that member r of n adds up: the sizes of parts differ by at most one element.
View part_of(View x, int64_t r, int64_t n) {
  const int64_t begin = x.count() * r / n, end = x.count() * (r + 1) / n;
  return x.reshape({x.count()}).rows_slice(begin, end - begin);
}

int64_t longest_part(int64_t elements, int ranks) { return (elements + ranks - 1) / ranks; }

/// The most elements that a rank adds up.
int64_t longest_sum(int ranks, const TensorGroup::Sizes& sizes) {
  return std::max(longest_part(sizes.elements, ranks), longest_part(sizes.sequence_rows, ranks) * sizes.width);
}

struct Buffers {
  Buffers(Arena& arena, int ranks, const TensorGroup::Sizes& sizes)
      : contributions(arena.take(sizes.dtype, {ranks * longest_sum(ranks, sizes)})),
        statistics(arena.take(stat_type(sizes.dtype), {ranks * std::max({int64_t{1}, 3 * sizes.rows,
                                                                         longest_part(sizes.statistics, ranks)})})) {
    if (sizes.sequence_rows == 0) return;
    for (View* all : {&gathered, &contribution}) *all = arena.take(sizes.dtype, {sizes.sequence_rows * sizes.width});
    gradients = arena.take(stat_type(sizes.dtype), {kGradients});
    gradient_parts = arena.take(stat_type(sizes.dtype), {ranks * longest_part(kGradients, ranks)});
  }
  View contributions;              ///< everyone's, to the part that this rank adds up
  View statistics;                 ///< of all ranks
  View gathered, contribution;     ///< all rows, where ranks share them
  View gradients, gradient_parts;  ///< packed, and everyone's contributions to this rank's part of them
};

}  // namespace

/// The thread and everything that it touches. It does one thing at a time.
class TensorGroup::Worker {
 public:
  Worker(Communicator& group, Ops& ops, const Sizes& sizes, std::vector<int> cpus)
      : group_(group),
        ops_(ops),
        stream_(ops.device().make_stream()),
        arena_(bytes_for(group.size(), sizes), ops.device()),
        buffers_(arena_, group.size(), sizes),
        sequence_parallel_(sizes.sequence_rows > 0),
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
  bool sequence_parallel() const { return sequence_parallel_; }
  uint64_t bytes_sent() const { return bytes_sent_; }

  void start_sum(Context& context, View x) { start_sum(context, x, buffers_.contributions); }
  void sum_statistics(Context& context, View x) {
    start_sum(context, x, buffers_.statistics);
    finish();
  }

  void start_gather(Context& context, ConstView own, View all) {
    if (own.rows() > 0) ops_.cast(context, own, rows_of(all, rank()));
    post(
        context, [this, all] { exchange_rows(all); }, all.bytes(), "rows of the tensor ranks");
  }

  void start_scatter_sum(Context& context, View all, View own) {
    const View sum = own.reshape({own.count()}), parts = parts_like(sum, buffers_.contributions);
    if (own.rows() > 0) ops_.cast(context, rows_of(all, rank()).reshape({own.count()}), parts.rows_slice(rank(), 1));
    post(
        context, [this, all, sum, parts] { add_up_rows(all, sum, parts); }, all.bytes());
  }

  View gathered(int64_t rows, int64_t width) const { return matrix_in(buffers_.gathered, rows, width); }
  View contribution(int64_t rows, int64_t width) const { return matrix_in(buffers_.contribution, rows, width); }

  void sum_gradients(Context& context, std::span<const View> gradients) {
    const View packed = buffers_.gradients;
    packed_.clear();
    int64_t filled = 0;
    const auto flush = [&] {
      start_sum(context, packed.rows_slice(0, filled), buffers_.gradient_parts);
      finish();
      int64_t at = 0;
      for (const View& piece : packed_) {
        ops_.cast(context, packed.rows_slice(at, piece.count()), piece);
        at += piece.count();
      }
      packed_.clear();
      filled = 0;
    };
    for (const View& gradient : gradients) {
      const View flat = gradient.reshape({gradient.count()});
      for (int64_t at = 0; at < flat.count();) {
        const View piece = flat.rows_slice(at, std::min(flat.count() - at, packed.count() - filled));
        ops_.cast(context, piece, packed.rows_slice(filled, piece.count()));
        packed_.push_back(piece);
        filled += piece.count();
        at += piece.count();
        if (filled == packed.count()) flush();
      }
    }
    if (filled > 0) flush();
  }

  void finish() {
    const Waiting waiting(group_.heartbeat(), what_, bytes_);
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
    post(
        context, [this, all, own] { exchange_statistics(all, own); }, all.bytes());
    finish();
    ops_.softmax_combine(context, all.reshape({size(), 3, rows}), max, sum, target);
  }

 private:
  static View matrix_in(View buffer, int64_t rows, int64_t width) {
    return buffer.rows_slice(0, rows * width).reshape({rows, width});
  }

  /// A member's of all rows.
  View rows_of(View all, int member) const {
    const RowShare share = row_share(all.rows(), member, size());
    return all.rows_slice(share.first, share.count);
  }

  void start_sum(Context& context, View x, View buffer) {
    if (x.count() == 0) return;
    const View own = part_of(x, rank(), size()), parts = parts_like(own, buffer);
    ops_.cast(context, own, parts.rows_slice(rank(), 1));
    post(
        context, [this, x, own, parts] { add_up(x, own, parts); }, x.bytes());
  }

  /// Work issued earlier to the context's stream is complete when the job begins.
  void post(Context& context, std::function<void()> job, uint64_t bytes,
            const char* what = "a layer's sum over the tensor ranks") {
    {
      const std::lock_guard lock(mutex_);
      assert(!job_);
      job_ = [complete = context.stream->record(), run = std::move(job)] {
        complete.wait();
        run();
      };
      bytes_ = bytes;
      what_ = what;
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

  // Of no rows nothing is sent.
  void send(std::vector<Handle>& handles, ConstView x, int peer, int tag) {
    if (x.count() == 0) return;
    handles.push_back(group_.send(x, peer, tag));
    bytes_sent_ += x.bytes();
  }
  void receive(std::vector<Handle>& handles, View x, int peer, int tag) {
    if (x.count() > 0) handles.push_back(group_.receive(x, peer, tag));
  }

  void wait(std::vector<Handle>& handles) {
    for (Handle& handle : handles) {
      handle.wait(what_);
      if (group_.heartbeat()) group_.heartbeat()->move();
    }
    handles.clear();
  }

  /// The contributions of all members to a part with this number of elements.
  View parts_like(View own, View buffer) const {
    return buffer.rows_slice(0, size() * own.count()).reshape({size(), own.count()});
  }

  /// Every member adds up a part of x and sends it to all.
  void add_up(View x, View own, View parts) {
    std::vector<Handle> handles;
    for_peers([&](int r) { receive(handles, parts.rows_slice(r, 1), r, kContribution); });
    for_peers([&](int r) { send(handles, part_of(x, r, size()), r, kContribution); });
    wait(handles);
    Context alone{.stream = stream_.get()};
    ops_.sum_parts(alone, parts, own);
    stream_->finish();
    for_peers([&](int r) { receive(handles, part_of(x, r, size()), r, kSum); });
    for_peers([&](int r) { send(handles, own, r, kSum); });
    wait(handles);
  }

  void exchange_rows(View all) {
    std::vector<Handle> handles;
    for_peers([&](int r) { receive(handles, rows_of(all, r), r, kRows); });
    for_peers([&](int r) { send(handles, rows_of(all, rank()), r, kRows); });
    wait(handles);
  }

  /// Every member adds up its rows.
  void add_up_rows(View all, View own, View parts) {
    std::vector<Handle> handles;
    for_peers([&](int r) { receive(handles, parts.rows_slice(r, 1), r, kContribution); });
    for_peers([&](int r) { send(handles, rows_of(all, r), r, kContribution); });
    wait(handles);
    if (own.count() == 0) return;
    Context alone{.stream = stream_.get()};
    ops_.sum_parts(alone, parts, own);
    stream_->finish();
  }

  void exchange_statistics(View all, int64_t own) {
    std::vector<Handle> handles;
    for_peers([&](int r) { receive(handles, all.rows_slice(r * own, own), r, kStatistics); });
    for_peers([&](int r) { send(handles, all.rows_slice(rank() * own, own), r, kStatistics); });
    wait(handles);
  }

  Communicator& group_;
  Ops& ops_;
  std::unique_ptr<DeviceStream> stream_;
  Arena arena_;
  Buffers buffers_;
  bool sequence_parallel_;
  std::vector<View> packed_;  ///< whose gradients are in buffers_.gradients, in order
  std::vector<int> cpus_;
  std::atomic<uint64_t> bytes_sent_ = 0;
  uint64_t bytes_ = 0;          ///< of the job
  const char* what_ = nullptr;  ///< the job is

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
bool TensorGroup::sequence_parallel() const { return worker_->sequence_parallel(); }
RowShare TensorGroup::share_of(int64_t rows) const {
  return sequence_parallel() ? row_share(rows, rank(), size()) : RowShare{0, rows};
}
void TensorGroup::start_sum(Context& context, View x) { worker_->start_sum(context, x); }
void TensorGroup::start_gather(Context& context, ConstView own, View all) { worker_->start_gather(context, own, all); }
void TensorGroup::start_scatter_sum(Context& context, View all, View own) {
  worker_->start_scatter_sum(context, all, own);
}
void TensorGroup::finish() { worker_->finish(); }
View TensorGroup::gathered(int64_t rows, int64_t width) { return worker_->gathered(rows, width); }
View TensorGroup::contribution(int64_t rows, int64_t width) { return worker_->contribution(rows, width); }
void TensorGroup::sum_gradients(Context& context, std::span<const View> gradients) {
  worker_->sum_gradients(context, gradients);
}
void TensorGroup::sum_statistics(Context& context, View x) { worker_->sum_statistics(context, x); }
void TensorGroup::combine(Context& context, View max, View sum, View target) {
  worker_->combine(context, max, sum, target);
}
uint64_t TensorGroup::bytes_sent() const { return worker_->bytes_sent(); }

}  // namespace trireme
