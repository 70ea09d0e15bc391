#pragma once
// Measures collectives over all ranks of a job. Every function is collective; results are the same on every rank.

#include <functional>
#include <memory>
#include <span>

#include "bench/comm/options.h"
#include "bench/comm/table.h"
#include "bench/comm/traffic.h"

namespace trireme::comm_bench {

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

}  // namespace trireme::comm_bench
