#include "train/memory_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace trireme {
namespace {

constexpr double kInterval = 0.1;                   // seconds: a model holds its memory for longer
constexpr const char* kPages = "/proc/self/statm";  // cheaper than /proc/self/status with its 60 lines

double gigabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e9; }

}  // namespace

MemoryWatch::MemoryWatch(CpuAccount* account) : file_(open(kPages, O_RDONLY | O_CLOEXEC)) {
  require(file_ >= 0, ErrorKind::io, "cannot open {}: {}", kPages, std::strerror(errno));
  before_ = now();
  thread_.start(account, [this] {
    for (std::vector<pollfd> none; !thread_.ending(); none.clear()) {
      look();
      thread_.wait(none, kInterval);
    }
  });
}

MemoryWatch::~MemoryWatch() {
  thread_.stop();
  close(file_);
}

/// Resident pages without those of files and of shared memory.
uint64_t MemoryWatch::now() const {
  std::array<char, 128> text{};
  const ssize_t length = pread(file_, text.data(), text.size(), 0);
  const char *at = text.data(), *const end = at + std::max<ssize_t>(length, 0);
  std::array<uint64_t, 3> pages{};  // mapped, resident, shared
  for (uint64_t& count : pages) {
    while (at < end && *at == ' ') ++at;
    const auto [next, error] = std::from_chars(at, end, count);
    if (error != std::errc()) return 0;
    at = next;
  }
  return (pages[1] - std::min(pages[1], pages[2])) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void MemoryWatch::look() {
  const uint64_t bytes = now();
  uint64_t most = maximum_;
  while (bytes > most && !maximum_.compare_exchange_weak(most, bytes)) {
  }
}

uint64_t MemoryWatch::peak() {
  look();
  return seen();
}

std::string describe_memory(std::span<const uint64_t> planned, std::span<const uint64_t> peaks) {
  const size_t rank = static_cast<size_t>(std::ranges::max_element(peaks) - peaks.begin());
  const std::string both =
      fmt::format("planned {:.2f} GB, peak {:.2f} GB", gigabytes(planned[rank]), gigabytes(peaks[rank]));
  return peaks.size() == 1 ? "memory: " + both
                           : fmt::format("memory per rank: {} (rank {}, the largest of {})", both, rank, peaks.size());
}

void log_memory(Scalars& scalars, uint64_t planned, uint64_t peak) {
  const auto plans = scalars.gather_values(planned), peaks = scalars.gather_values(peak);
  log::info("{}", describe_memory(plans, peaks));
}

void log_device_memory(uint64_t planned, const DeviceMemory& now) {
  log::info("GPU memory: planned {:.2f} GB, {:.2f} of {:.2f} GB in use", gigabytes(planned),
            gigabytes(now.total - now.free), gigabytes(now.total));
}

}  // namespace trireme
