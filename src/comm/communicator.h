#pragma once
// The operations that every communication backend has. Every call is asynchronous and returns a handle; wait() has a
// deadline. A communicator has one issuing thread, and every rank issues the same calls in the same order. Buffers stay
// untouched until the handle is done.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/view.h"

namespace trireme {

class DeviceLinks;
class Heartbeat;

enum class Reduction : uint8_t { sum, min, max };

/// A started operation. Destroying a handle that is not done is a broken invariant, except while an exception unwinds:
/// then it waits for its end, for a second at most, so that nothing is written into buffers that are freed.
class Handle {
 public:
  struct Operation {
    virtual ~Operation() = default;
    virtual bool test() = 0;  ///< progresses; true once done
  };
  Handle() = default;  ///< already done
  explicit Handle(std::unique_ptr<Operation> operation) : operation_(std::move(operation)) {}
  Handle(Handle&&) = default;
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();
  /// Makes progress. Throws the operation's error (Error::comm, Error::peer); the operation is then abandoned, as by
  /// abandon().
  bool test();
  /// Returns once done. Throws as test(), and after the deadline Error::comm naming `what` and the seconds waited.
  /// check: called while it waits; an exception from it ends the wait.
  void wait(std::string_view what, std::chrono::duration<double> deadline = std::chrono::hours(24),
            const std::function<void()>& check = {});
  /// After a failure that ends the job: abandons the operation. Its buffers must not be freed before the process ends.
  void abandon() { operation_.reset(); }

 private:
  std::unique_ptr<Operation> operation_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string backend() const = 0;  ///< "single", "Open MPI v4.1.4", ...

  /// x = reduction over ranks of x, in place. Types f32, f64, i32, i64.
  virtual Handle all_reduce(View x, Reduction) = 0;
  /// y = every rank's x concatenated: x [n], y [size * n]. Any type.
  virtual Handle all_gather(ConstView x, View y) = 0;
  virtual Handle broadcast(View x, int root) = 0;
  virtual Handle send(ConstView x, int to, int tag) = 0;
  virtual Handle receive(View x, int from, int tag) = 0;
  virtual Handle barrier() = 0;
  /// Ranks that pass the same color form a communicator, ordered by key. Collective.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  /// Waits on this group are recorded there (comm/heartbeat.h); nullptr, the default: not recorded. Groups split from
  /// this one need their own call.
  void report_to(Heartbeat* heartbeat) { heartbeat_ = heartbeat; }
  Heartbeat* heartbeat() const { return heartbeat_; }
  /// The devices of these ranks, connected (exchange/mesh_devices.h): those of other groups are split from them.
  /// nullptr, the default: they are not. Groups split from this one need their own call.
  void set_devices(std::shared_ptr<DeviceLinks> devices) { devices_ = std::move(devices); }
  const std::shared_ptr<DeviceLinks>& devices() const { return devices_; }

 private:
  Heartbeat* heartbeat_ = nullptr;
  std::shared_ptr<DeviceLinks> devices_;
};

/// A group of one.
std::unique_ptr<Communicator> make_single();

}  // namespace trireme
