#pragma once
// The main memory that a rank's process takes while it runs, to compare with its plan.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "comm/control/thread.h"
#include "comm/scalars.h"
#include "tensor/device.h"

namespace trireme {

/// Watches the private memory of this process (RssAnon of /proc/self/status: without mapped files and memory shared by
/// ranks) ten times a second in a separate thread.
class MemoryWatch {
 public:
  /// Create it before the first arena: memory that the process has before, such as rows of text, is not planned and not
  /// counted. account: counts the thread's processor time; may be nullptr. Throws Error::io.
  explicit MemoryWatch(CpuAccount* account = nullptr);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// The most bytes above the start value that have been observed so far.
  uint64_t peak();
  uint64_t seen() const { return maximum_ - std::min<uint64_t>(maximum_, before_); }

 private:
  uint64_t now() const;  ///< 0 if it cannot be read
  void look();

  int file_;
  uint64_t before_ = 0;
  std::atomic<uint64_t> maximum_ = 0;
  ControlThread thread_;
};

/// "memory per rank: planned 2.51 GB, peak 2.53 GB (rank 1, the largest of 4)": names the rank with the largest peak;
/// with one rank "memory: planned 2.51 GB, peak 2.53 GB". One value per rank.
std::string describe_memory(std::span<const uint64_t> planned, std::span<const uint64_t> peaks);

/// Collective. Logs the same line at the end of a run that all ranks reached.
void log_memory(Scalars& scalars, uint64_t planned, uint64_t peak);
/// Logs the same of a GPU. now: of the time when everything is still allocated.
void log_device_memory(uint64_t planned, const DeviceMemory& now);

}  // namespace trireme
