#pragma once
// The communication library's own blocking collectives, for `trireme bench comm`: what it makes of the network when
// called as its users call it. Training goes through comm/communicator.h.

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

/// `count`: elements of one rank's part. With n ranks a whole is n parts: all_gather and gather receive a whole,
/// reduce_scatter and scatter send one, all_to_all does both; the others move one part.
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
  /// Returns when this rank's share is done. Both arrays are as long as the longer side of the collective. In place a
  /// rank's input lies in `receive`: all_gather's and gather's as part `rank` of the whole, everything else at the
  /// front. Results lie at the front of `receive`, except scatter's on the root in place, which stays where it is.
  /// Throws Error::comm; Error::usage for more elements than the library can count.
  virtual void run(const CollectiveCall& call, void* send, void* receive) = 0;
};

/// Of the MPI library, over all ranks; MPI has been started. Throws Error::comm in a build without MPI.
std::unique_ptr<Collectives> make_mpi_collectives();

}  // namespace trireme
