#pragma once
// The ranks of one axis of the mesh as code that computes sees them: collectives in the order of streams. Every call
// returns at once. It begins when its event has been reached and returns the event of its end; until then its tensors
// stay untouched. On a host, calls run on a progress thread beside compute and the caller waits for the event; a device
// enqueues them on a separate stream, for which the compute stream waits.
//
// Every rank makes the same calls in the same order. They begin in that order, but may overlap: a call that needs the
// result of another one takes its event. The event of a call covers all earlier calls except, on one rank, sends and
// receives, which have two separate orders.

#include <cstdint>
#include <functional>
#include <span>

#include "tensor/device.h"
#include "tensor/view.h"

namespace trireme {

class Heartbeat;

/// Elements [begin, end) of a flat array.
struct ElementRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  int64_t count() const { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// What a sum over ranks is, to the bit: every contribution, that of the adding rank too, is rounded to `wire`; they
/// are added in rank order, in f32 (f64 if wire is f64); the sum is rounded to `wire`. It depends neither on how
/// messages travel nor on time.
struct RankOrderSum {
  DType wire = DType::f32;
};

/// By rank: its part of a flat array. May be empty.
using Pieces = std::span<const ElementRange>;

class StreamGroup {
 public:
  virtual ~StreamGroup() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// x = sum over ranks of their x, in the elements of `pieces`. Each rank adds up its piece and sends it to all.
  virtual Event sum(View x, Pieces pieces, const RankOrderSum& definition, Event after) = 0;
  /// own = sum over ranks of x's piece of this rank. own: a tensor of the piece's size or that piece of x itself. x's
  /// other pieces stay as they are.
  virtual Event scatter_sum(View x, Pieces pieces, View own, const RankOrderSum& definition, Event after) = 0;
  /// x's pieces = those of the ranks that they belong to, rounded to `wire` on the way; the rank's own piece stays.
  virtual Event gather(View x, Pieces pieces, DType wire, Event after) = 0;
  /// Messages between two ranks arrive in the order in which they were sent.
  virtual Event send(ConstView x, int to, Event after) = 0;
  virtual Event receive(View x, int from, Event after) = 0;
  /// Calls `work` when all earlier sums and gathers are done; it issues operators to the given stream of the group's
  /// device and may make further calls.
  virtual Event run(std::function<void(DeviceStream&)> work, Event after) = 0;

  /// Work issued from now on may use what the event covers: waits on the host, or has the default stream of the group's
  /// device wait. what: for who asks what the rank waits for; exists as long as the program. bytes: 0: unknown. Throws
  /// the error of any call of the group (Error::comm, Error::peer), of a device also that of an earlier event; after
  /// that the job must end.
  virtual void wait(const Event& event, const char* what, uint64_t bytes) const;
  /// Ends the group. False: it has failed or was not done; then buffers that it was given must stay until the process
  /// ends. Also called by the destructor.
  virtual bool end() noexcept = 0;

  virtual Heartbeat* heartbeat() const = 0;
  virtual uint64_t bytes_sent() const = 0;  ///< payload, since construction
};

/// Reached when both are.
Event both(Event a, Event b);

/// Returns once the event of the device is reached. Meanwhile `heartbeat` names what the device's compute waits for, as
/// StreamGroup::wait() got it. Throws the error of the work before the event, and as DeviceNetwork::check().
void wait_watching(const Event& event, Device& device, Heartbeat* heartbeat = nullptr);

}  // namespace trireme
