#pragma once
// The communication library's own collectives, for `trireme bench comm`: its use of the network when called directly.
// Training goes through comm/communicator.h.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme {

enum class Collective : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  send_receive  ///< every rank sends to the next one and receives from the one before
};
enum class ReduceOp : uint8_t { sum, prod, min, max, avg };
enum class Element : uint8_t { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16 };

size_t size_of(Element element);

/// `count`: elements of one rank's part. all_gather and gather receive n parts from n ranks, reduce_scatter and scatter
/// send n parts, all_to_all does both; the others move one part.
struct CollectiveCall {
  Collective collective = Collective::all_reduce;
  Element element = Element::f32;
  ReduceOp op = ReduceOp::sum;  ///< avg: the sum, divided by n in the element's type
  int root = 0;
  int64_t count = 0;
  bool in_place = false;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  /// Returns when this rank's share is done (but see finish()). Both arrays are as long as the longer side of the
  /// collective. In place a rank's input is in `receive`: for all_gather and gather as part `rank`, else at the front.
  /// Results are at the front of `receive`, except in-place scatter on the root, whose result stays where it is. Throws
  /// Error::comm; Error::usage for more elements than the library can count.
  virtual void run(const CollectiveCall& call, void* send, void* receive) = 0;

  // For a library whose arrays are on a device: run() does not read and write the given ones, and returns at once.
  /// Both arrays, of that many bytes, go to the device.
  virtual void take(const void* /*send*/, const void* /*receive*/, size_t /*bytes*/) {}
  /// The results of the last run(), which finish() has waited for, go to `receive`, of that many bytes.
  virtual void give(void* /*receive*/, size_t /*bytes*/) {}
  /// Returns when what was run is done.
  virtual void finish() {}
  /// Whether it has this collective in place.
  virtual bool in_place(Collective) const { return true; }
};

/// Those of the MPI library, over all ranks; MPI must have been started. Throws Error::comm in a build without MPI.
std::unique_ptr<Collectives> make_mpi_collectives();

}  // namespace trireme
