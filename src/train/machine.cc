#include "train/machine.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <sstream>

#include "base/affinity.h"
#include "base/cgroup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/time.h"

namespace trireme {
namespace {

/// MemAvailable of /proc/meminfo in bytes.
uint64_t host_available() {
  const std::string text = read_text("/proc/meminfo");
  const size_t at = text.find("MemAvailable:");
  require(at != std::string::npos, ErrorKind::io, "/proc/meminfo has no MemAvailable line");
  return std::stoull(text.substr(at + 13)) * 1024;
}

/// Processor time of the compute threads. Each thread asks for its own: the time of a thread on another processor is as
/// old as that processor's last clock tick, which is longer than a call of a fast processor.
double team_seconds(int threads) {
  double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
  {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    sum += static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  return sum;
}

}  // namespace

uint64_t available_memory(int local_ranks) {
  const int64_t limit = read_cgroup_limits().memory_bytes;
  const uint64_t available = limit > 0 ? std::min(host_available(), static_cast<uint64_t>(limit)) : host_available();
  return available / static_cast<uint64_t>(std::max(local_ranks, 1));
}

uint64_t resident_memory() {
  std::istringstream pages(read_text("/proc/self/statm"));
  uint64_t mapped = 0, resident = 0;
  pages >> mapped >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

namespace {

/// On a device whose calls return before they have run.
GemmRate measure_on_device(Ops& ops, DType dtype) {
  constexpr int64_t kSide = 8192;
  constexpr int kCalls = 8;  // between two waits
  Device& device = ops.device();
  Arena arena(3 * kSide * kSide * size_of(dtype) + 1024, device);
  Arena scratch(
      ops.scratch_bytes({.dtype = dtype, .rows = kSide, .width = kSide, .weight_count = kSide * kSide, .threads = 1}),
      device);
  Context context{.threads = 1, .scratch = &scratch, .stream = &device.stream()};
  const View x = arena.take(dtype, {kSide, kSide}), w = arena.take(dtype, {kSide, kSide}),
             y = arena.take(dtype, {kSide, kSide});
  GemmRate rate;
  const auto begin = Clock::now();
  for (int i = 0; i < 4 || seconds_since(begin) < 0.3; ++i) {  // the first ones warm up
    context.stream->finish();
    const auto start = Clock::now();
    for (int call = 0; call < kCalls; ++call) ops.linear(context, x, w, {}, y);
    context.stream->finish();
    rate.best = std::max(rate.best, kCalls * 2.0 * kSide * kSide * kSide / seconds_since(start));
  }
  return rate;
}

}  // namespace

GemmRate measure_gemm_rate(Ops& ops, int threads, DType dtype) {
  if (!ops.device().is_host()) return measure_on_device(ops, dtype);
  // Large enough that packing the weight is a small part. A call takes 10 to 50 ms on two cores, so that some calls run
  // undisturbed on a busy machine.
  constexpr int64_t kRows = 1536, kIn = 768, kOut = 3072;
  Arena arena(static_cast<size_t>(kRows * (kIn + kOut) + kOut * kIn) * size_of(dtype) + 1024);
  Arena scratch(ops.scratch_bytes(
      {.dtype = dtype, .rows = kRows, .width = kOut, .weight_count = kOut * kIn, .threads = threads}));
  Context context{threads, &scratch};
  const View x = arena.take(dtype, {kRows, kIn}), w = arena.take(dtype, {kOut, kIn}),
             y = arena.take(dtype, {kRows, kOut});
  ops.linear(context, x, w, {}, y);  // warm-up
  GemmRate rate;
  double wall = 0, busy = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < 4 || seconds_since(begin) < 0.3; ++i) {
    const double cpu = team_seconds(threads);
    const auto start = Clock::now();
    ops.linear(context, x, w, {}, y);
    const double call = seconds_since(start), of_thread = std::min(call, (team_seconds(threads) - cpu) / threads);
    wall += call;
    busy += of_thread;
    if (of_thread > 0) rate.best = std::max(rate.best, 2.0 * kRows * kIn * kOut / of_thread);
  }
  rate.processors = busy / wall;
  return rate;
}

double share_of_processors(int threads, int local_ranks) {
  double processors = static_cast<double>(offered_cpus().size());
  const double quota = read_cgroup_limits().cpus;
  if (quota > 0) processors = std::min(processors, quota);
  return std::clamp(processors / (threads * std::max(local_ranks, 1)), 0.01, 1.0);
}

}  // namespace trireme
