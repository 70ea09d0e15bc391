#pragma once
// The trainer's own gradient reduction (optim/reducer.h) as measured, compared with what the library and the network
// give, call by call in turn so that other load on the machine affects all of them.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/comm/options.h"
#include "bench/comm/table.h"
#include "bench/comm/traffic.h"
#include "comm/collectives.h"
#include "optim/optimizer.h"

namespace trireme::comm_bench {

// Measures collectives over all ranks of a job. Every function is collective; results are the same on every rank.

/// Two byte arrays as long as the largest size asked for.
class Buffers {
 public:
  explicit Buffers(int64_t bytes);
  void* outgoing() { return outgoing_.get(); }
  void* incoming() { return incoming_.get(); }

 private:
  struct Free {
    void operator()(void* memory) const;
  };
  std::unique_ptr<void, Free> outgoing_, incoming_;
};

/// One size of one collective, both modes, checked and timed.
Row measure(Job& job, const Options& options, const Subject& subject, const CollectiveCall& call, Buffers& buffers);

/// Elements per rank for a size of the table: rounded down.
int64_t count_of(const Subject& subject, Element element, int64_t bytes, int ranks);

/// Puts a call's inputs where Collectives::run() looks for them.
void prepare(const CollectiveCall& call, const Subject& subject, uint64_t seed, int rank, int ranks, Buffers& buffers);
/// Wrong elements of this rank after the call.
int64_t count_wrong(const CollectiveCall& call, const Subject& subject, uint64_t seed, int rank, int ranks,
                    Buffers& buffers);

/// Seconds of one call: warm-up, a barrier, then options.iterations times options.calls of them; over ranks as
/// options.average says.
double time_calls(Job& job, const Options& options, const std::function<void()>& call);
Timing timing_of(const Subject& subject, int64_t bytes, int ranks, double seconds);

struct GradientOptions {
  DType wire = DType::bf16;
  size_t bucket_bytes = OptimizerOptions().bucket_bytes;
  bool one_host = true;  ///< all ranks are on this host
  int threads = 0;       ///< of a rank, that compute beside an exchange; 0: its share of the host's cores
};

/// Work on each thread that needs a core and no memory bandwidth, equal in each call.
void keep_busy(int threads, int64_t rounds);
/// Rounds of it that last so long.
int64_t busy_rounds(int threads, double seconds);

/// In place only: gradients have no other place. `group` belongs to this call until it returns. ops: of the device of
/// the gradients, which exchange them.
Row measure_gradient(Job& job, Communicator& group, Ops& ops, const Options& options, const GradientOptions& gradient,
                     int64_t count);

/// Medians over options.iterations rounds, each of them one of every kind.
struct GradientComparison {
  int64_t bytes = 0;              ///< of the f32 gradients
  double all_reduce_seconds = 0;  ///< MPI_Allreduce of the same number of f32 elements
  double gradient_seconds = 0;
  double speed = 0;         ///< median of all_reduce / gradient of the same round: above 1 the trainer is faster
  uint64_t wire_bytes = 0;  ///< sent by a rank for one reduction
  double two_way_seconds =
      0;  ///< for the same number of bytes to the next rank and from the previous one at the same time
  double ping_pong_rate = 0;  ///< bytes per second of 1 MiB messages between rank 0 and the last rank
  double moved_bytes = 0;     ///< that a rank must read and write for one reduction (moved_bytes())
  double copy_rate = 0;       ///< bytes per second read and written by a plain copy, all ranks at once
  double of_copy = 0;         ///< median of moved_bytes per second of a reduction over the copy rate of its round
  /// Seconds that computing on all of a rank's threads takes longer if a reduction runs beside it.
  double lost_seconds = 0;

  double wire_rate() const { return static_cast<double>(wire_bytes) / gradient_seconds; }
  double two_way_rate() const { return static_cast<double>(wire_bytes) / two_way_seconds; }
};

/// Bytes that one of so many ranks reads and writes when it reduces `count` elements on one host and accesses nothing
/// twice: it rounds the others' parts (4 in, `wire` out), adds the contributions to its own part (4 and `wire` from
/// each other in, 4 and `wire` out), and copies the sums of the others (`wire` in, 4 out). Pure.
double moved_bytes(int64_t count, int ranks, DType wire);

GradientComparison compare_gradient(Job& job, Communicator& group, const Options& options,
                                    const GradientOptions& gradient, int64_t count);

std::string to_text(const std::vector<GradientComparison>& comparisons, const GradientOptions& gradient);

/// Rates the exchange inside one host by the largest size of 1 MiB or more: "as expected" from 80 % of a copy's rate
/// per byte moved, "below the memory's rate" from 50 %, else "poor", with the numbers and, below "as expected", a
/// remedy. Pure.
std::string copy_verdict(const std::vector<GradientComparison>& comparisons);

/// Numbers that every type holds exactly and whose reduction every type holds exactly, so that one wrong element is
/// seen: small integers, a function of (rank, index, seed) with a prime period.
class Pattern {
 public:
  /// `op`: of a reduction; for one that only moves data any. Throws Error::usage for avg on more than 120 ranks, whose
  /// sum the 8-bit types do not hold.
  Pattern(ReduceOp op, int ranks, uint64_t seed);

  /// values[i] = this rank's element first + i.
  void fill(Element element, void* values, int64_t first, int64_t count, int rank) const;
  /// How many of values[i] differ from rank's element first + i, or (rank < 0) from the reduction of all ranks'.
  int64_t count_wrong(Element element, const void* values, int64_t first, int64_t count, int rank) const;

 private:
  int input(int rank, int64_t index) const;
  std::vector<int> table(int rank) const;

  ReduceOp op_;
  int ranks_;
  uint64_t seed_;
};

}  // namespace trireme::comm_bench
