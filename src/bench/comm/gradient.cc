#include "bench/comm/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "base/numbers.h"
#include "base/time.h"
#include "bench/comm/hardware.h"
#include "bench/comm/traffic.h"
#include "ops/backend.h"

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

namespace {

constexpr int64_t kPingPongBytes = 1 << 20;
constexpr int kPingPongRounds = 21;

void reduce(Reducer& exchange, int64_t count, const std::function<void()>& beside = {}) {
  exchange.begin();
  exchange.ready(count);
  if (beside) beside();
  exchange.finish();
}

}  // namespace

void keep_busy(int threads, int64_t rounds) {
  double sum = 0;
#pragma omp parallel for schedule(static) num_threads(threads) reduction(+ : sum)
  for (int thread = 0; thread < threads; ++thread) {
    double x = thread + 2;  // 1 would stay 1, and the compiler would leave the loop out
    for (int64_t i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-6;
    sum += x;
  }
  [[maybe_unused]] volatile const double kept = sum;
}

int64_t busy_rounds(int threads, double seconds) {
  constexpr int64_t kSample = 1'000'000;
  keep_busy(threads, kSample);
  const Clock::time_point start = Clock::now();
  keep_busy(threads, kSample);
  return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(kSample) * seconds / seconds_since(start)));
}

namespace {

size_t chunk_bytes(const GradientOptions& gradient) { return gradient.one_host ? kHostChunkBytes : kNetworkChunkBytes; }

/// Aligned as gradients are.
std::span<float> f32_array(Arena& arena, int64_t count) {
  const std::span<float> values = arena.take(DType::f32, {count}).values<float>();
  std::ranges::fill(values, 0.0F);  // allocates the pages before anything is measured
  return values;
}

/// As the optimizer divides the gradients of a model of one parameter.
Ownership ownership_of(int64_t count, int ranks, const GradientOptions& gradient) {
  const auto elements = [&](size_t bytes) { return static_cast<int64_t>(bytes / size_of(gradient.wire)); };
  return {norm_borders(count), ranks, elements(gradient.bucket_bytes), elements(chunk_bytes(gradient))};
}

/// The slowest rank's seconds, for which a step waits.
double timed(Job& job, const std::function<void()>& action) {
  job.meet();
  const Clock::time_point start = Clock::now();
  action();
  return job.scalars.max(seconds_since(start));
}

}  // namespace

Row measure_gradient(Job& job, Communicator& group, Ops& ops, const Options& options, const GradientOptions& gradient,
                     int64_t count) {
  Arena arena(static_cast<size_t>(count) * sizeof(float) + 64, ops.device());
  const View gradients = arena.take(DType::f32, {count});
  const auto fill = [&](const std::function<void(float*)>& with) {
    write_values<float>(gradients, [&](auto to) { with(to.data()); });
  };
  const auto clear = [&](float* values) { std::fill_n(values, count, 0.0F); };
  fill(clear);  // allocates the pages before anything is measured
  const Ownership ownership = ownership_of(count, job.ranks(), gradient);
  Reducer exchange(gradients, group, ops, ownership,
                   {.wire = gradient.wire,
                    .chunk_bytes = chunk_bytes(gradient),
                    .one_host = gradient.one_host && ops.device().is_host()});
  const auto run = [&] {
    reduce(exchange, count);
    ops.device().stream().finish();
  };
  int64_t wrong = 0;
  for (int check = 0; check < options.checks; ++check) {
    const Pattern pattern(ReduceOp::sum, job.ranks(), static_cast<uint64_t>(check));
    fill([&](float* values) { pattern.fill(Element::f32, values, 0, count, job.rank()); });
    run();
    const HostValues<float> sums(gradients);
    wrong += pattern.count_wrong(Element::f32, sums.get().data(), 0, count, -1);
  }
  fill(clear);
  const Subject subject{"gradient", Collective::all_reduce, true};
  Row row;
  row.bytes = count * static_cast<int64_t>(sizeof(float));
  row.count = count;
  row.type = fmt::format("f32/{}", name_of(gradient.wire));
  row.op = name_of(ReduceOp::sum);
  row.in_place = timing_of(subject, row.bytes, job.ranks(), time_calls(job, options, run));
  if (options.checks > 0) row.in_place->wrong = static_cast<double>(job.scalars.sum(wrong));
  return row;
}

double moved_bytes(int64_t count, int ranks, DType wire) {
  const double width = static_cast<double>(size_of(wire)), own = 1.0 / ranks, others = 1 - own;
  constexpr double kF32 = sizeof(float);
  const double per_element = others * (kF32 + width)                                 // rounded for their owners
                             + own * (2 * kF32 + width) + own * (ranks - 1) * width  // added up
                             + others * (width + kF32);                              // taken over
  return static_cast<double>(count) * per_element;
}

GradientComparison compare_gradient(Job& job, Communicator& group, const Options& options,
                                    const GradientOptions& gradient, int64_t count) {
  Arena arena(2 * (static_cast<size_t>(count) * sizeof(float) + 64));
  const std::span<float> values = f32_array(arena, count), reduced = f32_array(arena, count);
  // A rank sends less than twice the array: its contributions to the others, and its sum to each of them.
  std::vector<uint8_t> outgoing(2 * static_cast<size_t>(count + 32 * job.ranks()) * size_of(gradient.wire)),
      incoming(outgoing.size());
  const Ownership ownership = ownership_of(count, job.ranks(), gradient);
  const Backend backend = make_backend();
  Reducer exchange(View(values, {count}), group, *backend.ops, ownership,
                   {.wire = gradient.wire, .chunk_bytes = chunk_bytes(gradient), .one_host = gradient.one_host});
  CollectiveCall call;
  call.count = count;
  GradientComparison result;
  result.bytes = count * static_cast<int64_t>(sizeof(float));
  result.moved_bytes = moved_bytes(count, job.ranks(), gradient.wire);
  std::vector<double> library_seconds, own_seconds, two_way_seconds, copy_seconds, speeds, of_copy, lost_seconds;
  int64_t rounds = 0;  // of computing that lasts longer than a reduction
  for (int round = -options.warmup; round < options.iterations; ++round) {
    const double theirs = timed(job, [&] { job.library.run(call, values.data(), reduced.data()); });
    const double ours = timed(job, [&] { reduce(exchange, count); });
    // Slices differ by a few elements between ranks.
    result.wire_bytes = static_cast<uint64_t>(job.scalars.max(static_cast<int64_t>(exchange.times().wire_bytes)));
    const double plain = timed(
        job, [&] { two_way(job.group, outgoing.data(), incoming.data(), static_cast<int64_t>(result.wire_bytes)); });
    const double copying =
        timed(job, [&] { std::memcpy(reduced.data(), values.data(), static_cast<size_t>(result.bytes)); });
    if (rounds == 0) {
      constexpr double kLonger = 1.5;
      rounds = job.scalars.max(busy_rounds(gradient.threads, kLonger * ours));
    }
    const auto beside = [&] { keep_busy(gradient.threads, rounds); };
    const double computing = timed(job, beside);
    double disturbed = 0;
    job.meet();
    reduce(exchange, count, [&] {
      const Clock::time_point start = Clock::now();
      beside();
      disturbed = seconds_since(start);
    });
    const double lost = job.scalars.max(disturbed) - computing;
    if (round < 0) continue;
    lost_seconds.push_back(lost);
    library_seconds.push_back(theirs);
    own_seconds.push_back(ours);
    two_way_seconds.push_back(plain);
    copy_seconds.push_back(copying);
    speeds.push_back(theirs / ours);
    of_copy.push_back(result.moved_bytes / ours / (2 * static_cast<double>(result.bytes) / copying));
  }
  result.all_reduce_seconds = median(library_seconds);
  result.gradient_seconds = median(own_seconds);
  result.two_way_seconds = median(two_way_seconds);
  result.speed = median(speeds);
  result.copy_rate = 2 * static_cast<double>(result.bytes) / median(copy_seconds);
  result.of_copy = median(of_copy);
  result.lost_seconds = std::max(0.0, median(lost_seconds));
  result.ping_pong_rate = ping_pong_rate(job, kPingPongBytes, kPingPongRounds);
  return result;
}

std::string to_text(const std::vector<GradientComparison>& comparisons, const GradientOptions& gradient) {
  std::string text = fmt::format(
      "# The trainer's gradient reduction ({} on the wire, buckets of {} bytes) compared with MPI_Allreduce of the "
      "same number of f32\n# elements and with plain two-way traffic of its wire bytes, in turn; medians.\n"
      "# Of copy: bytes that a rank must read and write, per second, divided by the rate of a plain copy by all ranks "
      "at "
      "once.\n"
      "#{:>11}  {:>13}  {:>11}  {:>6}  {:>11}  {:>11}  {:>12}  {:>13}  {:>14}  {:>10}  {:>9}\n",
      name_of(gradient.wire), gradient.bucket_bytes, "size (B)", "allreduce us", "gradient us", "ratio", "wire bytes",
      "wire GB/s", "two-way GB/s", "of two-way", "of ping-pong", "copy GB/s", "of copy");
  for (const GradientComparison& c : comparisons) {
    text += fmt::format(
        "{:>12}  {:>13.1f}  {:>11.1f}  {:>6.2f}  {:>11}  {:>11.3f}  {:>12.3f}  {:>11.1f} %  {:>12.1f} %  {:>10.2f}  "
        "{:>7.1f} %\n",
        c.bytes, 1e6 * c.all_reduce_seconds, 1e6 * c.gradient_seconds, c.speed, c.wire_bytes, c.wire_rate() / 1e9,
        c.two_way_rate() / 1e9, 100 * c.wire_rate() / c.two_way_rate(), 100 * c.wire_rate() / c.ping_pong_rate,
        c.copy_rate / 1e9, 100 * c.of_copy);
  }
  for (const GradientComparison& c : comparisons)
    text += fmt::format("# computing beside a reduction of {} bytes takes {:.1f} us longer\n", c.bytes,
                        1e6 * c.lost_seconds);
  return text;
}

std::string copy_verdict(const std::vector<GradientComparison>& comparisons) {
  const auto largest = std::ranges::max_element(comparisons, {}, &GradientComparison::bytes);
  if (largest == comparisons.end()) return "no data to judge";
  const double moved = 1e-9 * largest->moved_bytes / largest->gradient_seconds;
  if (largest->bytes < kLeastToJudge) {
    return fmt::format(
        "{:.3g} GB/s read and written at {} bytes, too small to judge the memory (at least {} bytes are needed)", moved,
        largest->bytes, kLeastToJudge);
  }
  const char* word = largest->of_copy >= kAsExpected ? "as expected"
                     : largest->of_copy >= kBelow    ? "below the memory's rate"
                                                     : "poor";
  std::string text =
      fmt::format("{:.3g} GB/s read and written at {} bytes, {:.0f} % of a copy by all ranks at the same time: {}",
                  moved, largest->bytes, 100 * largest->of_copy, word);
  if (largest->of_copy < kAsExpected)
    text +=
        "; a reduction waits for the processors of all ranks, a copy only for its own: are there more ranks than "
        "cores, or other programs (`uptime`)?";
  return text;
}

}  // namespace trireme::comm_bench
