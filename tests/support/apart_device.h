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
