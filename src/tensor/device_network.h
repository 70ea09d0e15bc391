#pragma once
// The seam to the library that moves tensors between the devices of several processes, in the order of streams: NCCL on
// GPUs (cuda/nccl.cc), sockets in tests. A process calls it from one thread, but for abort().

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tensor/view.h"

namespace trireme {

class Device;
class DeviceStream;
class Event;

/// Collectives of the library itself. The order of their sums is the library's choice: they are measured, training does
/// without them (docs/design.md, decision 7).
enum class DeviceCollective : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };

/// The ranks of a group, connected.
class DeviceLinks {
 public:
  virtual ~DeviceLinks() = default;
  /// What one rank sends to a peer and gets from it. Either may be empty.
  struct Part {
    int peer = 0;
    ConstView out{};
    View in{};
  };
  /// Issues to the stream: all parts begin together, so none waits for another one of the call. Between two ranks the
  /// n-th message that one sends is the n-th that the other one gets; both have the same type and size. Calls of one
  /// object use one stream. Throws as check().
  virtual void exchange(DeviceStream& stream, std::span<const Part> parts) = 0;
  /// Issues one of the library's own collectives. in, out: f32, bf16 or f16, of one size, but reduce_scatter's in and
  /// all_gather's out have a part for each rank; in place reduce_scatter's out and all_gather's in are the rank's part
  /// of the other one. root: of broadcast. Throws as check().
  virtual void collective(DeviceStream& stream, DeviceCollective which, ConstView in, View out, int root) = 0;
  /// Throws with the library's words if what was issued has failed: Error::peer if a rank or the network is lost,
  /// Error::comm otherwise.
  virtual void check() = 0;
  /// Ends what was issued, done or not, after which its tensors are undefined and only the destructor may be called.
  /// From any thread.
  virtual void abort() noexcept = 0;
};

class DeviceNetwork {
 public:
  virtual ~DeviceNetwork() = default;
  /// Names a group to be: one rank makes it, all get it.
  using Id = std::array<std::byte, 128>;
  virtual std::string name() const = 0;  ///< "NCCL 2.28.9"
  virtual Id make_id() = 0;
  /// Collective over the ranks of the group. Throws as check(), and Error::peer if the others have not called it after
  /// two minutes.
  virtual std::unique_ptr<DeviceLinks> connect(const Id& id, int rank, int size) = 0;
  /// DeviceLinks::check() of all groups that there are.
  virtual void check() = 0;
};

/// Returns once the event of the device, which may wait for other ranks, is reached. Throws the error of the work
/// before it, and as DeviceNetwork::check().
void wait_watching(const Event& event, Device& device);

}  // namespace trireme
