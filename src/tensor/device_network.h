#pragma once
// The seam to the library that moves tensors between the devices of several processes, in the order of streams: NCCL on
// GPUs (cuda/nccl.cc), sockets in tests. A process calls it from one thread, but for abort().

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tensor/device.h"
#include "tensor/view.h"

namespace trireme {

/// Blocks of a GPU that the messages of a group may take: they limit the memory of its connections, too. More may be
/// faster, which is not yet measured. NCCL_MAX_CTAS takes precedence.
constexpr int kLinkBlocks = 16;
/// Memory of the library, on the device, for each peer of a group: for each block the buffers of NCCL's three
/// protocols, 4 MiB (NCCL_BUFFSIZE), 120 x 640 x 8 x 8 bytes (LL128) and 8 x 512 x 8 x 16 bytes (LL). Source:
/// computeBuffSizes() in NCCL's init.cc, and setup of receivers in transport/p2p.cc; between hosts it is less. Not yet
/// compared with a GPU's.
constexpr size_t kLinkBytes = kLinkBlocks * ((size_t{4} << 20) + 4'915'200 + 524'288);
/// Sums of the library's own connect a rank along rings and trees: with at most that many peers.
constexpr int kPeersOfLibrarySums = 5;

/// Collectives of the library itself. The order of their sums, and where they are rounded, is the library's choice:
/// training uses them where comm.reduce is nccl (docs/design.md, decision 7). Every rank gets the same bits.
enum class DeviceCollective : uint8_t { all_reduce, reduce_scatter, all_gather, broadcast };

/// What a group's links are for: tensors, or only to be split, which needs little memory.
enum class LinkUse : uint8_t { tensors, splits };

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
  /// Collective over these ranks, in one order of calls, with nothing under way that was issued to these links: ranks
  /// with the same color become a group, in the order of keys. color: at least 0; none: the rank is in no group and
  /// gets nullptr. Groups share no memory. Throws as DeviceNetwork::connect(), and these links are then aborted.
  virtual std::unique_ptr<DeviceLinks> split(std::optional<int> color, int key, LinkUse use) = 0;
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
  /// Names the ranks of a job: one of them makes it, all get it.
  using Id = std::array<std::byte, 128>;
  virtual std::string name() const = 0;  ///< "NCCL 2.28.9"
  virtual Id make_id() = 0;
  /// Collective over all ranks of the job: links to be split. Throws as check(), and Error::peer if the others
  /// have not called it after two minutes.
  virtual std::unique_ptr<DeviceLinks> connect(const Id& id, int rank, int size) = 0;
  /// DeviceLinks::check() of all groups that are there.
  virtual void check() = 0;
  /// DeviceLinks::abort() of all groups that are there: a failure of one ends them all. Once they are destroyed, new
  /// ones can be connected. Returns after two seconds at most.
  void abort() noexcept;
  /// The same for a process that is about to end: from any thread.
  virtual void abort_all() noexcept = 0;

  /// What the device's compute waits for, and from where on.
  struct Awaited {
    Event before, event;
    const char* what = nullptr;  ///< exists as long as the program
    uint64_t bytes = 0;          ///< 0: unknown
  };
  /// Notes it; in the order of compute.
  void await(Awaited work);
  /// What compute waits for now; nullptr: nothing.
  const Awaited* awaited();

 private:
  std::deque<Awaited> awaited_;
};

}  // namespace trireme
