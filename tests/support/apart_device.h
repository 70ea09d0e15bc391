#pragma once
// A device whose memory only its operators, copies and communicators can access, and whose work runs later, on a thread
// per stream, like on an accelerator. Addresses are in a mapping of a memfd without permissions; the work uses a
// second, private mapping.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "comm/communicator.h"
#include "ops/element_sum.h"
#include "ops/ops.h"
#include "tensor/device_network.h"
#include "tests/support/apart_faults.h"

namespace trireme {

class ApartDevice;

/// Runs issued work in order, each item a moment after it was issued.
class ApartStream final : public DeviceStream {
 public:
  ApartStream(ApartDevice& device, std::chrono::microseconds late);
  ~ApartStream() override {
    leave_device();
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  ApartStream(const ApartStream&) = delete;
  ApartStream& operator=(const ApartStream&) = delete;

  void issue(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      works_.push_back(std::move(work));
      ++issued_;
    }
    changed_.notify_all();
  }

  /// Until all work has run, whatever came of it.
  void drain() {
    uint64_t issued = 0;
    {
      const std::lock_guard lock(mutex_);
      issued = issued_;
    }
    std::unique_lock lock(done_->mutex);
    done_->changed.wait(lock, [&] { return done_->works >= issued; });
  }

  Event record() override {
    apart_faults.call("an event");
    const std::lock_guard lock(mutex_);
    return Event(std::make_shared<Point>(device_, done_, issued_));
  }
  Event record_time() override {
    apart_faults.call("an event with its time");
    const auto time = std::make_shared<Clock::time_point>();
    issue([time] { *time = Clock::now(); });
    const std::lock_guard lock(mutex_);
    return Event(std::make_shared<Point>(device_, done_, issued_, time));
  }
  void copy(ConstView from, View to) override;
  void copy_later(ConstView from, View to) override;

 private:
  void leave_device();
  /// What a stream has done, which events outlive.
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t works = 0;
    std::exception_ptr error;

    void wait_for(uint64_t work) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return works >= work; });
      if (error) std::rethrow_exception(error);
    }
  };
  struct Point final : Event::State {
    Point(ApartDevice& of, std::shared_ptr<Done> of_stream, uint64_t at,
          std::shared_ptr<Clock::time_point> reached_at = nullptr)
        : device(of), done(std::move(of_stream)), work(at), time(std::move(reached_at)) {}
    void wait() override;
    bool reached() override {
      apart_faults.look("a look at an event");
      if (apart_faults.drops(true)) return true;
      const std::lock_guard lock(done->mutex);
      return done->works >= work;
    }
    void hold(DeviceStream& later) override {
      apart_faults.call("a stream's wait");
      if (apart_faults.drops(false)) return;
      static_cast<ApartStream&>(later).issue([of = done, at = work] { of->wait_for(at); });
    }
    double seconds_since(const State& earlier) const override {
      return std::chrono::duration<double>(*time - *dynamic_cast<const Point&>(earlier).time).count();
    }
    ApartDevice& device;
    std::shared_ptr<Done> done;
    uint64_t work;
    std::shared_ptr<Clock::time_point> time;  ///< of record_time()
  };

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return ends_ || !works_.empty(); });
      if (works_.empty()) return;
      const auto work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      std::this_thread::sleep_for(late_);
      std::exception_ptr error;
      try {
        work();
      } catch (...) {
        error = std::current_exception();
      }
      {
        const std::lock_guard done_lock(done_->mutex);
        if (error && !done_->error) done_->error = error;
        ++done_->works;
      }
      done_->changed.notify_all();
      lock.lock();
    }
  }

  ApartDevice& device_;
  const std::chrono::microseconds late_;
  std::shared_ptr<Done> done_ = std::make_shared<Done>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
  uint64_t issued_ = 0;
  bool ends_ = false;
  std::thread thread_;  // last: it uses all of the above
};

class ApartDevice final : public Device {
 public:
  ApartDevice() : file_(memfd_create("apart", MFD_CLOEXEC)) {
    if (ftruncate(file_, kBytes) != 0) fail(ErrorKind::io, "no memory for the device");
    outside_ = map(PROT_NONE);
    inside_ = map(PROT_READ | PROT_WRITE);
    stream_ = std::make_unique<ApartStream>(*this, apart_faults.late_default);
  }
  ~ApartDevice() override {
    stream_.reset();
    munmap(outside_, kBytes);
    munmap(inside_, kBytes);
    close(file_);
  }
  ApartDevice(const ApartDevice&) = delete;
  ApartDevice& operator=(const ApartDevice&) = delete;

  std::string_view name() const override { return "apart"; }
  std::byte* allocate(size_t bytes) override {
    apart_faults.call("an allocation");
    const std::lock_guard lock(mutex_);
    if (used_ + bytes > kBytes) fail(ErrorKind::io, "the device is full");
    std::byte* memory = outside_ + used_;
    used_ += bytes;
    ++counts_.allocations;
    return memory;
  }
  void free(std::byte* memory, size_t bytes) noexcept override {  // and never allocates it again
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, memory - outside_, static_cast<off_t>(bytes));
  }
  /// Reads after free() find NaN.
  void release(std::byte* memory, size_t bytes) override { std::memset(inside_ + (memory - outside_), 0xff, bytes); }
  DeviceMemory memory() const override { return {.free = kBytes - used_, .total = kBytes}; }
  DeviceStream& stream() override { return *stream_; }
  std::unique_ptr<DeviceStream> make_stream() override {
    apart_faults.call("a stream");
    return std::make_unique<ApartStream>(*this, apart_faults.late_others);
  }
  /// Filled with NaN.
  std::byte* allocate_pinned(size_t bytes) override {
    apart_faults.call("an allocation of pinned memory");
    const std::lock_guard lock(mutex_);
    ++counts_.allocations;
    const auto& memory = pinned_.emplace_back(bytes, std::byte{0xff});
    return const_cast<std::byte*>(memory.data());
  }
  /// It stays until the device ends: CUDA waits for the copies that were issued.
  void free_pinned(std::byte*, size_t) noexcept override {}

  /// Of all streams, those that nobody can destroy any more included.
  void drain() {
    std::vector<ApartStream*> streams;
    {
      const std::lock_guard lock(mutex_);
      streams.assign(streams_.begin(), streams_.end());
    }
    for (ApartStream* stream : streams) stream->drain();
  }
  void enter(ApartStream& stream) {
    const std::lock_guard lock(mutex_);
    streams_.insert(&stream);
  }
  void leave(ApartStream& stream) {
    const std::lock_guard lock(mutex_);
    streams_.erase(&stream);
  }

  DeviceNetwork* network() override { return network_.get(); }
  void set_network(std::unique_ptr<DeviceNetwork> network) { network_ = std::move(network); }

  /// The address of a tensor for the device's work. Throws Error::shape for a tensor on another device.
  View inside(ConstView x) {
    if (x.data() == nullptr) return {nullptr, x.dtype(), x.shape()};
    const auto* address = static_cast<const std::byte*>(x.data());
    if (x.device() != this || address < outside_ || address + x.bytes() > outside_ + kBytes)
      fail(ErrorKind::shape, "a tensor {} of another device", x.shape().to_string());
    return {inside_ + (address - outside_), x.dtype(), x.shape()};
  }
  /// The same for a copy that runs later. Throws Error::shape for memory of the host that is not pinned.
  View inside_or_pinned(ConstView x) {
    if (x.device()) return inside(x);
    const std::lock_guard lock(mutex_);
    const auto* address = static_cast<const std::byte*>(x.data());
    for (std::vector<std::byte>& one : pinned_)
      if (address >= one.data() && address + x.bytes() <= one.data() + one.size())
        return {one.data() + (address - one.data()), x.dtype(), x.shape()};
    fail(ErrorKind::shape, "a copy that runs later needs pinned memory on the host");
  }

  DeviceCounts counts() {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  void reset_counts() {
    const std::lock_guard lock(mutex_);
    counts_ = {};
  }
  void count_wait() {
    const std::lock_guard lock(mutex_);
    ++counts_.host_waits;
    counts_.batches_before += std::exchange(counts_.batches_after, 0);
  }
  void count_copy_from_host(bool pinned) {
    const std::lock_guard lock(mutex_);
    ++(pinned ? counts_.batches_after : counts_.pageable_copies);
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 32;

  std::byte* map(int access) const {
    void* memory = mmap(nullptr, kBytes, access, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (memory == MAP_FAILED) fail(ErrorKind::io, "no memory for the device");
    return static_cast<std::byte*>(memory);
  }

  int file_;
  std::byte *outside_ = nullptr, *inside_ = nullptr;
  std::mutex mutex_;
  size_t used_ = 0;
  std::list<std::vector<std::byte>> pinned_;
  DeviceCounts counts_;
  std::set<ApartStream*> streams_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<DeviceNetwork> network_;
};

inline ApartStream::ApartStream(ApartDevice& device, std::chrono::microseconds late)
    : device_(device), late_(late), thread_([this] { run(); }) {
  device.enter(*this);
}
inline void ApartStream::leave_device() { device_.leave(*this); }

inline void ApartStream::copy(ConstView from, View to) {
  apart_faults.call("a copy");
  if (!to.device()) {  // after all issued work
    issue([this, from, to] {
      std::memcpy(to.data(), device_.inside(from).data(), from.bytes());
      apart_faults.spoil("copy", to);
    });
    device_.count_wait();
    return done_->wait_for(issued_);  // part of the copy, so no wait that its caller could leave out
  }
  if (from.device()) return copy_later(from, to);
  device_.count_copy_from_host(false);
  const auto* first = static_cast<const std::byte*>(from.data());
  issue([this, bytes = std::vector<std::byte>(first, first + from.bytes()), to] {
    std::memcpy(device_.inside(to).data(), bytes.data(), bytes.size());
  });
}

inline void ApartStream::copy_later(ConstView from, View to) {
  apart_faults.call("a copy");
  if (!from.device()) device_.count_copy_from_host(true);
  issue([source = device_.inside_or_pinned(from), target = device_.inside_or_pinned(to), to_host = !to.device()] {
    std::memcpy(target.data(), source.data(), source.bytes());
    if (to_host) apart_faults.spoil("copy_later", target);
  });
}

inline void ApartStream::Point::wait() {
  apart_faults.call("a wait");
  if (apart_faults.drops(false)) return;
  device.count_wait();
  done->wait_for(work);
}

/// The operators of the host on the device's memory.
class ApartOps final : public Ops {
 public:
  /// has_f16: the operators take f16, too.
  ApartOps(ApartDevice& device, std::unique_ptr<Ops> host, bool has_f16 = false)
      : device_(device), host_(std::move(host)), has_f16_(has_f16) {}
  ~ApartOps() override { device_.drain(); }  // after a failure work may be left that uses it
  std::string_view name() const override { return "apart"; }
  Device& device() const override { return device_; }
  size_t scratch_bytes(const CallSizes& sizes) const override { return host_->scratch_bytes(sizes); }

 private:
  View in(ConstView x) const { return device_.inside(x); }
  Dropout in(Dropout d) const {
    d.sample = in(d.sample), d.position = in(d.position);
    return d;
  }
  QueryKeyNorm in(QueryKeyNorm n) const {
    n.q = in(n.q), n.k = in(n.k);
    return n;
  }
  AttentionShape in(AttentionShape s) const {
    s.offsets = in(s.offsets);
    return s;
  }
  /// work(context): with scratch of the host's operators.
  template <class Work>
  void later(const Context& context, Work work) {
    apart_faults.call("a kernel");
    static_cast<ApartStream*>(context.stream)->issue([threads = context.threads, work] {
      thread_local Arena scratch(size_t{64} << 20);
      Context own{.threads = threads, .scratch = &scratch};
      work(own);
    });
  }

  bool takes(DType activation) const override {
    return activation == DType::f32 || activation == DType::bf16 || (has_f16_ && activation == DType::f16);
  }
  void do_linear(Context& c, ConstView x, ConstView w, ConstView bias, View y) override {
    later(c, [=, this](Context& own) {
      host_->linear(own, in(x), in(w), in(bias), in(y));
      apart_faults.spoil("linear", in(y));
    });
  }
  void do_linear_activation(Context& c, ConstView x, ConstView w, ConstView bias, Activation f, View pre,
                            View y) override {
    later(c, [=, this](Context& own) { host_->linear_activation(own, in(x), in(w), in(bias), f, in(pre), in(y)); });
  }
  void do_linear_backward_input(Context& c, ConstView dy, ConstView w, View dx) override {
    later(c, [=, this](Context& own) { host_->linear_backward_input(own, in(dy), in(w), in(dx)); });
  }
  void do_linear_backward_weight(Context& c, ConstView dy, ConstView x, View dw, Write write) override {
    later(c, [=, this](Context& own) { host_->linear_backward_weight(own, in(dy), in(x), in(dw), write); });
  }
  void do_bias_backward(Context& c, ConstView dy, View db, Write write) override {
    later(c, [=, this](Context& own) { host_->bias_backward(own, in(dy), in(db), write); });
  }
  void do_layer_norm(Context& c, ConstView x, ConstView w, ConstView b, float eps, View y, View mean,
                     View rstd) override {
    later(c, [=, this](Context& own) {
      host_->layer_norm(own, in(x), in(w), in(b), eps, in(y), in(mean), in(rstd));
      apart_faults.spoil("layer_norm", in(y));
    });
  }
  void do_layer_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, ConstView mean, ConstView rstd,
                              View dx, View dw, View db, Write write) override {
    later(c, [=, this](Context& own) {
      host_->layer_norm_backward(own, in(dy), in(x), in(w), in(mean), in(rstd), in(dx), in(dw), in(db), write);
    });
  }
  void do_rms_norm(Context& c, ConstView x, ConstView w, float offset, float eps, View y, View rstd) override {
    later(c, [=, this](Context& own) { host_->rms_norm(own, in(x), in(w), offset, eps, in(y), in(rstd)); });
  }
  void do_rms_norm_backward(Context& c, ConstView dy, ConstView x, ConstView w, float offset, ConstView rstd, View dx,
                            View dw, Write write) override {
    later(c, [=, this](Context& own) {
      host_->rms_norm_backward(own, in(dy), in(x), in(w), offset, in(rstd), in(dx), in(dw), write);
    });
  }
  void do_query_key_squares(Context& c, ConstView qkv, const QueryKeyNorm& norm, View squares) override {
    later(c, [=, this](Context& own) { host_->query_key_squares(own, in(qkv), in(norm), in(squares)); });
  }
  void do_query_key_norm(Context& c, ConstView qkv, const QueryKeyNorm& norm, ConstView squares, View y) override {
    later(c, [=, this](Context& own) { host_->query_key_norm(own, in(qkv), in(norm), in(squares), in(y)); });
  }
  void do_query_key_products(Context& c, ConstView dqkv, ConstView qkv, const QueryKeyNorm& norm,
                             View products) override {
    later(c, [=, this](Context& own) { host_->query_key_products(own, in(dqkv), in(qkv), in(norm), in(products)); });
  }
  void do_query_key_norm_backward(Context& c, View dqkv, ConstView qkv, const QueryKeyNorm& norm, ConstView squares,
                                  ConstView products, View dq, View dk, Write write) override {
    later(c, [=, this](Context& own) {
      host_->query_key_norm_backward(own, in(dqkv), in(qkv), in(norm), in(squares), in(products), in(dq), in(dk),
                                     write);
    });
  }
  void do_activation(Context& c, ConstView x, Activation f, View y) override {
    later(c, [=, this](Context& own) { host_->activation(own, in(x), f, in(y)); });
  }
  void do_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    later(c, [=, this](Context& own) { host_->activation_backward(own, in(dy), in(x), f, in(dx)); });
  }
  void do_gated_activation(Context& c, ConstView x, Activation f, View y) override {
    later(c, [=, this](Context& own) { host_->gated_activation(own, in(x), f, in(y)); });
  }
  void do_gated_activation_backward(Context& c, ConstView dy, ConstView x, Activation f, View dx) override {
    later(c, [=, this](Context& own) { host_->gated_activation_backward(own, in(dy), in(x), f, in(dx)); });
  }
  void do_dropout_add(Context& c, ConstView x, ConstView residual, const Dropout& dropout, View y,
                      float factor) override {
    later(c, [=, this](Context& own) { host_->dropout_add(own, in(x), in(residual), in(dropout), in(y), factor); });
  }
  void do_dropout_backward(Context& c, ConstView dy, const Dropout& dropout, View dx, float factor) override {
    later(c, [=, this](Context& own) {
      host_->dropout_backward(own, in(dy), in(dropout), in(dx), factor);
      apart_faults.spoil("dropout_backward", in(dx));
    });
  }
  void do_embedding(Context& c, ConstView tokens, ConstView positions, ConstView tokens_table,
                    ConstView positions_table, View y) override {
    later(c, [=, this](Context& own) {
      host_->embedding(own, in(tokens), in(positions), in(tokens_table), in(positions_table), in(y));
    });
  }
  void do_embedding_part(Context& c, ConstView tokens, ConstView table, TableRows part, View y) override {
    later(c, [=, this](Context& own) { host_->embedding_part(own, in(tokens), in(table), part, in(y)); });
  }
  void do_embedding_backward(Context& c, ConstView ids, ConstView dy, View dtable, Write write,
                             TableRows part) override {
    later(c, [=, this](Context& own) { host_->embedding_backward(own, in(ids), in(dy), in(dtable), write, part); });
  }
  void do_embedding_add(Context& c, ConstView ids, ConstView table, View y) override {
    later(c, [=, this](Context& own) { host_->embedding_add(own, in(ids), in(table), in(y)); });
  }
  void do_scatter_rows(Context& c, ConstView y, ConstView rows, View x) override {
    later(c, [=, this](Context& own) { host_->scatter_rows(own, in(y), in(rows), in(x)); });
  }
  void do_rotary_table(Context& c, std::span<const float> frequencies, double factor, View table) override {
    later(c, [=, this, kept = std::vector<float>(frequencies.begin(), frequencies.end())](Context& own) {
      host_->rotary_table(own, kept, factor, in(table));
    });
  }
  void do_rotary(Context& c, View qkv, ConstView positions, ConstView table, bool inverse) override {
    later(c, [=, this](Context& own) {
      inverse ? host_->rotary_backward(own, in(qkv), in(positions), in(table))
              : host_->rotary(own, in(qkv), in(positions), in(table));
    });
  }
  void do_attention(Context& c, ConstView qkv, const AttentionShape& shape, const Dropout& dropout, View out,
                    View lse) override {
    later(c, [=, this](Context& own) { host_->attention(own, in(qkv), in(shape), in(dropout), in(out), in(lse)); });
  }
  void do_attention_backward(Context& c, ConstView dout, ConstView qkv, ConstView out, ConstView lse,
                             const AttentionShape& shape, const Dropout& dropout, View dqkv) override {
    later(c, [=, this](Context& own) {
      host_->attention_backward(own, in(dout), in(qkv), in(out), in(lse), in(shape), in(dropout), in(dqkv));
    });
  }
  void do_attention_cached(Context& c, ConstView qkv, const AttentionShape& shape, ConstView past, View cache,
                           View out) override {
    later(c,
          [=, this](Context& own) { host_->attention_cached(own, in(qkv), in(shape), in(past), in(cache), in(out)); });
  }
  void do_softmax_stats(Context& c, ConstView logits, ConstView targets, int64_t first_class, int64_t classes, View max,
                        View sum, View target) override {
    later(c, [=, this](Context& own) {
      host_->softmax_stats(own, in(logits), in(targets), first_class, classes, in(max), in(sum), in(target));
    });
  }
  void do_softmax_combine(Context& c, ConstView parts, View max, View sum, View target) override {
    later(c, [=, this](Context& own) { host_->softmax_combine(own, in(parts), in(max), in(sum), in(target)); });
  }
  void do_smooth_target(Context& c, ConstView logits, int64_t classes, double smoothing, View target) override {
    later(c, [=, this](Context& own) { host_->smooth_target(own, in(logits), classes, smoothing, in(target)); });
  }
  void do_cross_entropy(Context& c, ConstView max, ConstView sum, ConstView target, ConstView targets,
                        View total) override {
    later(c,
          [=, this](Context& own) { host_->cross_entropy(own, in(max), in(sum), in(target), in(targets), in(total)); });
  }
  void do_cross_entropy_backward(Context& c, View logits, ConstView targets, int64_t first_class, int64_t classes,
                                 ConstView max, ConstView sum, float scale, double smoothing, float cap) override {
    later(c, [=, this](Context& own) {
      host_->cross_entropy_backward(own, in(logits), in(targets), first_class, classes, in(max), in(sum), scale,
                                    smoothing, cap);
    });
  }
  void do_soft_cap(Context& c, View x, float cap) override {
    later(c, [=, this](Context& own) { host_->soft_cap(own, in(x), cap); });
  }
  void do_squared_error(Context& c, ConstView z, ConstView targets, View total) override {
    later(c, [=, this](Context& own) { host_->squared_error(own, in(z), in(targets), in(total)); });
  }
  void do_squared_error_backward(Context& c, View z, ConstView targets, float scale) override {
    later(c, [=, this](Context& own) { host_->squared_error_backward(own, in(z), in(targets), scale); });
  }
  void do_sum_parts(Context& c, ConstView parts, View y) override {
    later(c, [=, this](Context& own) { host_->sum_parts(own, in(parts), in(y)); });
  }
  void do_add(Context& c, ConstView x, View y) override {
    later(c, [=, this](Context& own) { host_->add(own, in(x), in(y)); });
  }
  void do_cast(Context& c, ConstView x, View y) override {
    later(c, [=, this](Context& own) { host_->cast(own, in(x), in(y)); });
  }
  void do_zero(Context& c, View x) override {
    later(c, [=, this](Context& own) { host_->zero(own, in(x)); });
  }
  void do_place_rows(Context& c, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                     View y) override {
    later(c, [=, this](Context& own) { host_->place_rows(own, in(x), pattern, column, factor, in(y)); });
  }
  void do_take_rows(Context& c, ConstView x, const RowPattern& pattern, int64_t column, float factor, View y,
                    Write write) override {
    later(c, [=, this](Context& own) { host_->take_rows(own, in(x), pattern, column, factor, in(y), write); });
  }
  void do_low_rank_squares(Context& c, ConstView w, ConstView b, ConstView a, View squares) override {
    later(c, [=, this](Context& own) { host_->low_rank_squares(own, in(w), in(b), in(a), in(squares)); });
  }
  void do_magnitude_factors(Context& c, ConstView magnitudes, ConstView squares, View factors, View inverses) override {
    later(c, [=, this](Context& own) {
      host_->magnitude_factors(own, in(magnitudes), in(squares), in(factors), in(inverses));
    });
  }
  void do_scale_columns(Context& c, ConstView x, ConstView factors, ConstView bias, View y) override {
    later(c, [=, this](Context& own) { host_->scale_columns(own, in(x), in(factors), in(bias), in(y)); });
  }
  void do_scale_columns_backward(Context& c, ConstView dy, ConstView x, ConstView factors, View dx,
                                 View products) override {
    later(c, [=, this](Context& own) {
      host_->scale_columns_backward(own, in(dy), in(x), in(factors), in(dx), in(products));
    });
  }
  void do_squared_norms(Context& c, ConstView x, View values) override {
    later(c, [=, this](Context& own) {
      host_->squared_norms(own, in(x), in(values));
      apart_faults.spoil("squared_norms", in(values));
    });
  }
  void do_element_sums(Context& c, ConstView x, ConstView low, const ElementPlaces& places, View sums) override {
    later(c, [=, this](Context& own) { host_->element_sums(own, in(x), in(low), places, in(sums)); });
  }
  void do_adamw(Context& c, const AdamW& options, ConstView grad, View m, View v, View weights,
                View remainder) override {
    later(c, [=, this](Context& own) {
      host_->adamw(own, options, in(grad), in(m), in(v), in(weights), in(remainder));
      apart_faults.spoil("adamw", in(m));
    });
  }
  void do_wire_cast(Context& c, ConstView x, View y) override {
    later(c, [=, this](Context& own) { host_->wire_cast(own, in(x), in(y)); });
  }
  void do_sum_contributions(Context& c, std::span<const ConstView> parts, View mine, View sum) override {
    later(c, [=, this, all = std::vector<ConstView>(parts.begin(), parts.end())](Context& own) {
      std::vector<ConstView> inside;
      for (const ConstView& part : all) inside.push_back(part.empty() ? ConstView() : ConstView(in(part)));
      host_->sum_contributions(own, inside, in(mine), in(sum));
    });
  }
  void do_mark_rows(Context& c, ConstView x, View map) override {
    later(c, [=, this](Context& own) { host_->mark_rows(own, in(x), in(map)); });
  }
  void do_pack_rows(Context& c, View x, ConstView map) override {
    later(c, [=, this](Context& own) { host_->pack_rows(own, in(x), in(map)); });
  }
  void do_unpack_rows(Context& c, View x, ConstView map) override {
    later(c, [=, this](Context& own) { host_->unpack_rows(own, in(x), in(map)); });
  }

  ApartDevice& device_;
  std::unique_ptr<Ops> host_;
  bool has_f16_;
};

/// A group that sends the device's tensors with their values at the time of the call.
class ApartCommunicator final : public Communicator {
 public:
  ApartCommunicator(ApartDevice& device, Communicator& group) : device_(device), group_(group) {
    report_to(group.heartbeat());
  }
  ApartCommunicator(ApartDevice& device, std::unique_ptr<Communicator> group) : ApartCommunicator(device, *group) {
    owned_ = std::move(group);
  }
  int rank() const override { return group_.rank(); }
  int size() const override { return group_.size(); }
  std::string backend() const override { return group_.backend(); }
  Handle all_reduce(View x, Reduction how) override { return group_.all_reduce(in(x), how); }
  Handle all_gather(ConstView x, View y) override { return group_.all_gather(in(x), in(y)); }
  Handle broadcast(View x, int root) override { return group_.broadcast(in(x), root); }
  Handle send(ConstView x, int to, int tag) override { return group_.send(in(x), to, tag); }
  Handle receive(View x, int from, int tag) override { return group_.receive(in(x), from, tag); }
  Handle barrier() override { return group_.barrier(); }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<ApartCommunicator>(device_, group_.split(color, key));
  }

 private:
  ConstView in(ConstView x) const { return x.device() ? ConstView(device_.inside(x)) : x; }
  View in(View x) const { return x.device() ? device_.inside(x) : x; }

  ApartDevice& device_;
  std::unique_ptr<Communicator> owned_;
  Communicator& group_;
};

}  // namespace trireme
