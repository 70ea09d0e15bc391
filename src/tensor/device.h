#pragma once
// Devices hold tensors and run operators. The host is one device; on others, only operators, communicators and copies
// can access memory, and work runs later, in the order in which it was issued to a stream.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "tensor/view.h"

namespace trireme {

/// What a job computes on.
enum class DeviceChoice : uint8_t {
  automatic,  ///< a GPU if one can be used, else the CPU
  cpu,
  cuda,
};
template <>
struct Names<DeviceChoice> {
  static constexpr Named<DeviceChoice> kAll[] = {
      {"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}};
};

/// Bytes of a device's memory, of all its users.
struct DeviceMemory {
  uint64_t free = 0, total = 0;
};

class DeviceStream;
class DeviceNetwork;

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;  ///< "host"
  /// Whether the program can read and write the memory directly.
  virtual bool is_host() const { return false; }
  /// Zeroed and aligned to 2 MiB. Throws Error::io with the number if memory is insufficient.
  virtual std::byte* allocate(size_t bytes) = 0;
  /// A failure is logged once: the memory is then lost until the process ends.
  virtual void free(std::byte* memory, size_t bytes) noexcept = 0;
  /// Returns the complete pages inside to the system. Their contents are lost; later writes get memory again.
  virtual void release(std::byte* memory, size_t bytes) = 0;
  /// The memory of a device other than the host (for that, train/machine.h); zeros if unknown.
  virtual DeviceMemory memory() const { return {}; }
  /// The default stream.
  virtual DeviceStream& stream() = 0;
  /// Another stream, for a thread with concurrent work.
  virtual std::unique_ptr<DeviceStream> make_stream() = 0;
  /// What connects it with devices of other processes (tensor/device_network.h); nullptr: nothing does.
  virtual DeviceNetwork* network() { return nullptr; }
  /// Memory of the host that the device's streams can copy from and to while the program continues
  /// (tensor/pinned.h); not zeroed. Throws Error::io if memory is insufficient.
  virtual std::byte* allocate_pinned(size_t bytes);
  virtual void free_pinned(std::byte* memory, size_t bytes) noexcept;
};

/// A point in a stream's work. One of the host, and one that was not recorded, has always been reached.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual void wait() = 0;
    virtual bool reached() = 0;
    /// What is issued to the stream from now on runs after it. The host waits unless the device can.
    virtual void hold(DeviceStream&) { wait(); }
    /// earlier: of the same device. Both were recorded by record_time() and have been reached.
    virtual double seconds_since(const State& earlier) const;
  };
  Event() = default;
  bool reached() const { return !state_ || state_->reached(); }
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  /// Returns once all work before it has run. Throws the error of that work.
  void wait() const {
    if (state_) state_->wait();
  }
  /// DeviceStream::wait()
  void hold(DeviceStream& stream) const {
    if (state_) state_->hold(stream);
  }
  /// On the device's clock. Both were recorded by record_time() of one device and have been reached.
  double seconds_since(const Event& earlier) const { return state_->seconds_since(*earlier.state_); }

 private:
  std::shared_ptr<State> state_;
};

/// Any thread may issue work; the order between two threads is undefined.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;
  virtual Event record() = 0;
  /// The same with the time at which it is reached.
  virtual Event record_time() = 0;
  /// to = from, the same number of bytes, in order with the stream's work. Either may be on the host: a source there
  /// may change after the return, a destination there holds the values after the return.
  virtual void copy(ConstView from, View to) = 0;
  /// The same, but what is on the host is pinned memory of the stream's device, which the copy reads or writes when it
  /// runs, perhaps after the return.
  virtual void copy_later(ConstView from, View to) = 0;
  /// Work issued from now on runs after the event: the host continues if the event is of the same device.
  void wait(const Event& event) { event.hold(*this); }
  /// Returns once all work so far has run.
  void finish() { record().wait(); }
};

Device& host_device();

/// The bytes of a tensor, readable by the program: the tensor itself on the host, else a copy, made in order with the
/// work of its device's stream.
class HostBytes {
 public:
  explicit HostBytes(ConstView x) : view_(x) {
    if (!x.device()) return;
    copy_.resize(x.bytes());
    const View to(copy_.data(), x.dtype(), x.shape());
    x.device()->stream().copy(x, to);
    view_ = to;
  }
  HostBytes(const HostBytes&) = delete;
  HostBytes& operator=(const HostBytes&) = delete;
  std::span<const std::byte> get() const { return {static_cast<const std::byte*>(view_.data()), view_.bytes()}; }
  ConstView view() const { return view_; }

 private:
  std::vector<std::byte> copy_;
  ConstView view_;
};

/// The same as values of their type.
template <class T>
class HostValues {
 public:
  explicit HostValues(ConstView x) : bytes_(x) {}
  std::span<const T> get() const { return bytes_.view().empty() ? std::span<const T>() : bytes_.view().values<T>(); }

 private:
  HostBytes bytes_;
};

/// New values of all elements of a tensor, which fill(std::span<T>) sets on the host: in the tensor itself, or in what
/// is then copied to it.
template <class T, class Fill>
void write_values(View x, const Fill& fill) {
  if (!x.device()) return fill(x.values<T>());
  std::vector<T> values(static_cast<size_t>(x.count()));
  fill(std::span<T>(values));
  x.device()->stream().copy(View(std::span<T>(values), x.shape()), x);
}

}  // namespace trireme
