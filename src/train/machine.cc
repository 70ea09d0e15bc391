#include "train/machine.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>

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

double measure_gemm_rate(Ops& ops, int threads, DType dtype) {
  constexpr int64_t kRows = 1024, kIn = 768, kOut = 3072;  // large enough for full speed, small enough for any machine
  Arena arena(static_cast<size_t>(kRows * (kIn + kOut) + kOut * kIn) * size_of(dtype) + 1024);
  Arena scratch(ops.scratch_bytes(
      {.dtype = dtype, .rows = kRows, .width = kOut, .weight_count = kOut * kIn, .threads = threads}));
  Context context{threads, &scratch};
  const View x = arena.take(dtype, {kRows, kIn}), w = arena.take(dtype, {kOut, kIn}),
             y = arena.take(dtype, {kRows, kOut});
  double best = 0;
  const auto begin = Clock::now();
  for (int i = 0; i < 3 || seconds_since(begin) < 0.2; ++i) {
    const auto start = Clock::now();
    ops.linear(context, x, w, {}, y);
    best = std::max(best, 2.0 * kRows * kIn * kOut / seconds_since(start));
  }
  return best;
}

}  // namespace trireme
