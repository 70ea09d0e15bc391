#include "bench/comm/measure.h"

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/time.h"
#include "bench/comm/pattern.h"

namespace trireme::comm_bench {
namespace {

constexpr size_t kAlignment = 4096;

void* allocate(int64_t bytes) {
  const size_t rounded = (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, std::max(rounded, kAlignment));
  require(memory != nullptr, ErrorKind::io, "cannot allocate a buffer of {} bytes; lower -e", bytes);
  std::memset(memory, 0, std::max(rounded, kAlignment));  // allocates the pages before anything is timed
  return memory;
}

bool sends_whole(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::all_to_all ||
         collective == Collective::scatter;
}

/// Part of the buffer with a rank's own input, in place.
bool lies_in_own_part(Collective collective) {
  return collective == Collective::all_gather || collective == Collective::gather;
}

ReduceOp op_of(const CollectiveCall& call) { return reduces(call.collective) ? call.op : ReduceOp::max; }

char* at(void* array, const CollectiveCall& call, int64_t element) {
  return static_cast<char*>(array) + static_cast<size_t>(element) * size_of(call.element);
}

}  // namespace

Buffers::Buffers(int64_t bytes) : outgoing_(allocate(bytes)), incoming_(allocate(bytes)) {}
void Buffers::Free::operator()(void* memory) const { std::free(memory); }

int64_t count_of(const Subject& subject, Element element, int64_t bytes, int ranks) {
  const int parts = subject.is_gradient ? 1 : parts_of(subject.collective, ranks);
  return bytes / static_cast<int64_t>(size_of(element)) / parts;
}

void prepare(const CollectiveCall& call, const Subject& subject, uint64_t seed, int rank, int ranks, Buffers& buffers) {
  const Pattern pattern(op_of(call), ranks, seed);
  const int64_t whole = call.count * parts_of(subject.collective, ranks);
  // Unwritten data must not look right.
  std::memset(buffers.incoming(), 0x7B, static_cast<size_t>(whole) * size_of(call.element));
  void* target = call.in_place ? buffers.incoming() : buffers.outgoing();
  if (sends_whole(call.collective)) {
    pattern.fill(call.element, target, 0, whole, rank);
  } else {
    const int64_t first = call.in_place && lies_in_own_part(call.collective) ? rank * call.count : 0;
    pattern.fill(call.element, at(target, call, first), 0, call.count, rank);
  }
  // Out of place this reads the outgoing array on every rank, in place on the root only.
  if (call.in_place && call.collective == Collective::reduce && rank != call.root) {
    pattern.fill(call.element, buffers.outgoing(), 0, call.count, rank);
  }
}

int64_t count_wrong(const CollectiveCall& call, const Subject& subject, uint64_t seed, int rank, int ranks,
                    Buffers& buffers) {
  const Pattern pattern(op_of(call), ranks, seed);
  const int64_t n = call.count;
  const bool is_root = rank == call.root;
  const auto wrong = [&](int64_t place, int64_t first, int from) {
    return pattern.count_wrong(call.element, at(buffers.incoming(), call, place), first, n, from);
  };
  switch (call.collective) {
    case Collective::all_reduce:
      return wrong(0, 0, -1);
    case Collective::reduce:
      return is_root ? wrong(0, 0, -1) : 0;
    case Collective::reduce_scatter:
      return wrong(0, rank * n, -1);
    case Collective::broadcast:
      return wrong(0, 0, call.root);
    case Collective::send_receive:
      return wrong(0, 0, (rank + ranks - 1) % ranks);
    case Collective::scatter:
      return wrong(is_root && call.in_place ? rank * n : 0, rank * n, call.root);
    case Collective::gather:
      if (!is_root) return 0;
      [[fallthrough]];
    default: {
      int64_t sum = 0;
      const int64_t first = subject.collective == Collective::all_to_all ? rank * n : 0;
      for (int r = 0; r < ranks; ++r) sum += wrong(r * n, first, r);
      return sum;
    }
  }
}

double time_calls(Job& job, const Options& options, const std::function<void()>& call) {
  for (int i = 0; i < options.warmup; ++i) call();
  job.library.finish();
  job.meet();
  const Clock::time_point start = Clock::now();
  const int64_t calls = int64_t{options.iterations} * options.calls;
  for (int64_t i = 0; i < calls; ++i) call();
  job.library.finish();
  const double own = seconds_since(start) / static_cast<double>(calls);
  double least[] = {own};
  switch (options.average) {
    case Average::rank0:
      return job.scalars.sum(job.rank() == 0 ? own : 0.0);
    case Average::mean:
      return job.scalars.sum(own) / job.ranks();
    case Average::least:
      job.scalars.min(least);
      return least[0];
    default:
      return job.scalars.max(own);
  }
}

Timing timing_of(const Subject& subject, int64_t bytes, int ranks, double seconds) {
  Timing timing;
  timing.microseconds = 1e6 * seconds;
  timing.algorithm_bandwidth = seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
  timing.bus_bandwidth = timing.algorithm_bandwidth * bus_factor(subject, ranks);
  return timing;
}

Row measure(Job& job, const Options& options, const Subject& subject, const CollectiveCall& call, Buffers& buffers) {
  const int ranks = job.ranks(), rank = job.rank();
  Row row;
  row.count = call.count;
  row.bytes = call.count * static_cast<int64_t>(size_of(call.element)) * parts_of(subject.collective, ranks);
  row.type = name_of(call.element);
  row.op = reduces(call.collective) ? name_of(call.op) : "none";
  row.root = has_root(call.collective) ? call.root : -1;
  const auto bytes = static_cast<size_t>(row.bytes);
  for (const bool in_place : {false, true}) {
    if (in_place && !job.library.in_place(call.collective)) continue;
    CollectiveCall one = call;
    one.in_place = in_place;
    const auto run = [&] { job.library.run(one, buffers.outgoing(), buffers.incoming()); };
    int64_t wrong = 0;
    for (int check = 0; check < options.checks; ++check) {
      const auto seed = static_cast<uint64_t>(check);
      prepare(one, subject, seed, rank, ranks, buffers);
      job.library.take(buffers.outgoing(), buffers.incoming(), bytes);
      job.meet();  // data that arrives early must not enter an array that is still being filled
      run();
      job.library.finish();
      job.library.give(buffers.incoming(), bytes);
      wrong += count_wrong(one, subject, seed, rank, ranks, buffers);
    }
    if (options.checks == 0) prepare(one, subject, 0, rank, ranks, buffers);
    Timing timing = timing_of(subject, row.bytes, ranks, time_calls(job, options, run));
    if (options.checks > 0) timing.wrong = static_cast<double>(job.scalars.sum(wrong));
    (in_place ? row.in_place : row.out_of_place) = timing;
  }
  return row;
}

}  // namespace trireme::comm_bench
