#include "optim/exchange.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "base/affinity.h"
#include "base/error.h"
#include "base/time.h"
#include "optim/exchange_kernels.h"
#include "optim/exchange_plan.h"
#include "tensor/arena.h"

namespace trireme {
namespace {

constexpr int64_t kChunkBytes = 1 << 20;  // docs/design.md, decision 7
constexpr int kSlots = 4;                 // chunks on their way: enough to hide one message's round trip behind others
constexpr int64_t kBlock = 2048;          // elements summed at a time: 8 KiB of f32 stay in the L1 cache
constexpr int kContribution = 1, kSum = 2;  // tags
// The thread may share its core with a compute thread, so it sleeps between looks once nothing has arrived for a while.
constexpr auto kPatience = std::chrono::microseconds(30);
constexpr auto kPatienceOfLast = std::chrono::milliseconds(2);  // nobody computes any more
constexpr auto kFirstSleep = std::chrono::microseconds(20);
constexpr auto kLongestSleep = std::chrono::milliseconds(1);

void to_wire(const float* x, View y, int64_t n) {
  if (y.dtype() == DType::bf16) return exchange_kernels::round(x, y.as<bf16_t>(), n);
  std::memcpy(y.data(), x, static_cast<size_t>(n) * sizeof(float));
}

void from_wire(ConstView x, float* y, int64_t n) {
  if (x.dtype() == DType::bf16) return exchange_kernels::widen(x.as<bf16_t>(), y, n);
  std::memcpy(y, x.data(), static_cast<size_t>(n) * sizeof(float));
}

void add_wire(ConstView x, float* y, int64_t n) {
  x.dtype() == DType::bf16 ? exchange_kernels::add(x.as<bf16_t>(), y, n) : exchange_kernels::add(x.as<float>(), y, n);
}

/// Buffers and operations of one chunk on its way. Vectors and matrix rows are by peer; this rank's own are unused.
struct Slot {
  enum class Phase { idle, summing, gathering } phase = Phase::idle;
  ExchangeChunk chunk;
  View own, reduced;                       ///< [limit] wire
  View outgoing, contributions, gathered;  ///< [ranks, limit] wire
  std::vector<Handle> sends, arrivals;     ///< of contributions
  std::vector<Handle> sum_sends, sum_arrivals;
  std::vector<char> awaited;  ///< the peer's sum has not been taken over yet

  auto all_handles() { return std::array{&sends, &arrivals, &sum_sends, &sum_arrivals}; }
};

}  // namespace

/// The thread and everything that it touches.
class Exchange::Worker {
 public:
  Worker(std::span<float> gradients, Communicator& group, ExchangeOptions options)
      : gradients_(gradients), group_(group), options_(std::move(options)) {
    const auto width = static_cast<int64_t>(size_of(options_.wire));
    const int64_t bucket = std::max<int64_t>(1, static_cast<int64_t>(options_.bucket_bytes) / width);
    chunks_ = plan_exchange(static_cast<int64_t>(gradients.size()), options_.boundaries, bucket, kChunkBytes / width,
                            group.size());
    int64_t longest = 0;
    for (const ExchangeChunk& chunk : chunks_) longest = std::max(longest, chunk.limit);
    Arena measure;
    take_buffers(measure, longest);
    buffers_ = Arena(measure.peak());
    take_buffers(buffers_, longest);
    thread_ = std::thread([this] { run(); });
  }

  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    // After a failure MPI may still write into buffers that it was given: they stay until the process ends.
    if (error_) new Arena(std::move(buffers_));
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    assert(!busy_);
    ready_end_ = 0;
    busy_ = true;
    hurry_ = false;
    times_ = {};
  }

  void ready(int64_t end) {
    {
      const std::lock_guard lock(mutex_);
      if (!busy_) return;
      assert(end >= ready_end_);
      ready_end_ = end;
    }
    wake_.notify_all();
  }

  void finish() {
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    if (!error_ && !busy_) return;
    ready_end_ = static_cast<int64_t>(gradients_.size());
    hurry_ = true;
    wake_.notify_all();
    done_.wait(lock, [&] { return !busy_ || error_; });
    if (error_) std::rethrow_exception(error_);
    times_.exposed_seconds = seconds_since(start);
  }

  const ExchangeTimes& times() const { return times_; }
  size_t buffer_bytes() const { return buffers_.capacity(); }

 private:
  void take_buffers(Arena& arena, int64_t longest) {
    const Shape row{longest}, rows{group_.size(), longest};
    const auto peers = static_cast<size_t>(group_.size());
    for (Slot& slot : slots_) {
      slot.own = arena.take(options_.wire, row);
      slot.reduced = arena.take(options_.wire, row);
      for (View* view : {&slot.outgoing, &slot.contributions, &slot.gathered}) *view = arena.take(options_.wire, rows);
      for (auto* handles : slot.all_handles()) handles->resize(peers);
      slot.awaited.resize(peers);
    }
  }

  void run() {
    try {
      if (!options_.cpus.empty()) pin_this_thread(options_.cpus);
      while (wait_for_step()) run_step();
    } catch (...) {
      for (Slot& slot : slots_) {
        for (auto* handles : slot.all_handles()) {
          for (Handle& handle : *handles) handle.abandon();
        }
      }
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      done_.notify_all();
    }
  }

  /// False when the thread shall end.
  bool wait_for_step() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return stop_ || (busy_ && ready_end_ >= chunks_.front().bucket_end); });
    return !stop_;
  }

  void run_step() {
    const auto start = Clock::now();
    uint64_t bytes = 0;
    size_t started = 0, ended = 0;
    auto quiet_since = start;
    auto pause = std::chrono::duration_cast<Clock::duration>(kFirstSleep);
    while (ended < chunks_.size()) {
      bool moved = false;
      while (started < chunks_.size() && started - ended < kSlots && chunks_[started].bucket_end <= ready_end_) {
        bytes += start_chunk(slots_[started % kSlots], chunks_[started]);
        ++started;
        moved = true;
      }
      bool in_order = true;  // sums leave in the order in which their receives were posted
      for (size_t i = ended; i < started; ++i) {
        Slot& slot = slots_[i % kSlots];
        if (slot.phase == Slot::Phase::summing && in_order && all_done(slot.arrivals)) {
          bytes += sum_chunk(slot);
          moved = true;
        }
        in_order = in_order && slot.phase != Slot::Phase::summing;
        if (slot.phase == Slot::Phase::gathering) moved = gather_chunk(slot) || moved;
      }
      for (; ended < started && slots_[ended % kSlots].phase == Slot::Phase::idle; ++ended) moved = true;
      if (moved) {
        quiet_since = Clock::now();
        pause = kFirstSleep;
      } else {
        rest(started > ended, quiet_since, pause, started < chunks_.size() ? &chunks_[started] : nullptr);
      }
    }
    const std::lock_guard lock(mutex_);
    times_.total_seconds = seconds_since(start);
    times_.wire_bytes = bytes;
    busy_ = false;
    done_.notify_all();
  }

  /// Nothing has moved: looks again at once, or later, or (nothing on its way) when the next bucket is ready.
  void rest(bool on_the_way, Clock::time_point quiet_since, Clock::duration& pause, const ExchangeChunk* next) {
    const Clock::duration patience = hurry_ ? Clock::duration(kPatienceOfLast) : Clock::duration(kPatience);
    if (on_the_way && Clock::now() - quiet_since < patience) {
      std::this_thread::yield();
    } else {
      std::unique_lock lock(mutex_);
      if (on_the_way) {
        wake_.wait_for(lock, pause, [&] { return stop_.load(); });
        pause = std::min<Clock::duration>(pause * 2, kLongestSleep);
      } else {
        wake_.wait(lock, [&] { return stop_ || next->bucket_end <= ready_end_; });
      }
    }
    if (stop_) fail(ErrorKind::comm, "the gradient exchange was given up in the middle of a step");
  }

  /// Peers in an order that spreads the load: everyone begins with the next rank.
  template <class Do>
  void for_peers(Do action) {
    const int size = group_.size(), rank = group_.rank();
    for (int i = 1; i < size; ++i) action((rank + i) % size);
  }

  static View part(View rows, int row, int64_t n) {
    const View whole = rows.rows_slice(row, 1);
    return {whole.data(), whole.dtype(), Shape{n}};
  }

  uint64_t start_chunk(Slot& slot, const ExchangeChunk& chunk) {
    slot.chunk = chunk;
    slot.phase = Slot::Phase::summing;
    const int64_t own = chunk.length(group_.rank());
    uint64_t bytes = 0;
    for_peers([&](int peer) {
      const auto p = static_cast<size_t>(peer);
      const int64_t n = chunk.length(peer);
      if (own > 0) slot.arrivals[p] = group_.receive(part(slot.contributions, peer, own), peer, kContribution);
      // Posted before anyone can send it, so that it never waits in a buffer of MPI's.
      if (n > 0) slot.sum_arrivals[p] = group_.receive(part(slot.gathered, peer, n), peer, kSum);
      slot.awaited[p] = n > 0;
    });
    for_peers([&](int peer) {
      const int64_t n = chunk.length(peer);
      if (n == 0) return;
      const View out = part(slot.outgoing, peer, n);
      to_wire(gradients_.data() + chunk.begin(peer), out, n);
      slot.sends[static_cast<size_t>(peer)] = group_.send(out, peer, kContribution);
      bytes += out.bytes();
    });
    return bytes;
  }

  /// Every contribution is here: adds them in rank order and sends the sum to everyone.
  uint64_t sum_chunk(Slot& slot) {
    const int64_t n = slot.chunk.length(group_.rank());
    float* own = gradients_.data() + slot.chunk.begin(group_.rank());
    const View reduced{slot.reduced.data(), slot.reduced.dtype(), Shape{n}};
    to_wire(own, slot.own, n);
    alignas(64) float sum[kBlock];
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t length = std::min(kBlock, n - first);
      for (int r = 0; r < group_.size(); ++r) {
        const View all = r == group_.rank() ? slot.own : part(slot.contributions, r, n);
        const View x = all.rows_slice(first, length);
        r == 0 ? from_wire(x, sum, length) : add_wire(x, sum, length);
      }
      to_wire(sum, reduced.rows_slice(first, length), length);
    }
    from_wire(reduced, own, n);
    uint64_t bytes = 0;
    if (n > 0) {
      for_peers([&](int peer) {
        slot.sum_sends[static_cast<size_t>(peer)] = group_.send(reduced, peer, kSum);
        bytes += reduced.bytes();
      });
    }
    slot.phase = Slot::Phase::gathering;
    return bytes;
  }

  /// Takes over the sums that have arrived. Idle once everything has, and everything sent has left. True: something
  /// did.
  bool gather_chunk(Slot& slot) {
    bool moved = false, complete = true;
    for_peers([&](int peer) {
      const auto p = static_cast<size_t>(peer);
      if (!slot.awaited[p]) return;
      if (!slot.sum_arrivals[p].test()) {
        complete = false;
        return;
      }
      const int64_t n = slot.chunk.length(peer);
      from_wire(part(slot.gathered, peer, n), gradients_.data() + slot.chunk.begin(peer), n);
      slot.awaited[p] = false;
      moved = true;
    });
    if (complete && all_done(slot.sends) && all_done(slot.sum_sends)) slot.phase = Slot::Phase::idle;
    return moved;
  }

  static bool all_done(std::vector<Handle>& handles) {
    bool done = true;
    for (Handle& handle : handles) done = handle.test() && done;
    return done;
  }

  std::span<float> gradients_;
  Communicator& group_;
  ExchangeOptions options_;
  std::vector<ExchangeChunk> chunks_;
  Arena buffers_;
  Slot slots_[kSlots];
  ExchangeTimes times_;

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<int64_t> ready_end_ = 0;              // changed under the mutex, looked at without it
  std::atomic<bool> hurry_ = false, stop_ = false;  // likewise
  bool busy_ = false;
  std::exception_ptr error_;
  std::thread thread_;
};

Exchange::Exchange(std::span<float> gradients, Communicator& group, ExchangeOptions options) {
  require(options.wire == DType::bf16 || options.wire == DType::f32, ErrorKind::config,
          "gradients cannot travel as {}; set comm.wire to bf16 or f32", name_of(options.wire));
  if (group.size() > 1 && !gradients.empty()) {
    worker_ = std::make_unique<Worker>(gradients, group, std::move(options));
  }
}

Exchange::~Exchange() = default;

void Exchange::begin() {
  if (worker_) worker_->begin();
}

void Exchange::ready(int64_t end) {
  if (worker_) worker_->ready(end);
}

void Exchange::finish() {
  if (worker_) worker_->finish();
}

const ExchangeTimes& Exchange::times() const { return worker_ ? worker_->times() : none_; }

size_t Exchange::buffer_bytes() const { return worker_ ? worker_->buffer_bytes() : 0; }

}  // namespace trireme
