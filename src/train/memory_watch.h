#pragma once
// What a rank's process takes of main memory while it runs, to be held against what its plan says it will.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "comm/control/thread.h"
#include "comm/scalars.h"

namespace trireme {

/// Watches the private memory of this process (RssAnon of /proc/self/status; neither mapped files nor what ranks of a
/// host share) ten times a second from a thread of its own.
class MemoryWatch {
 public:
  /// To be made before the first arena: what the process has by then, such as rows of text, is in no plan and does not
  /// count. account: counts the thread's processor time; may be nullptr. Throws Error::io.
  explicit MemoryWatch(CpuAccount* account = nullptr);
  ~MemoryWatch();
  MemoryWatch(const MemoryWatch&) = delete;
  MemoryWatch& operator=(const MemoryWatch&) = delete;

  /// The most bytes above those at the beginning: so far, or so far as the thread has seen.
  uint64_t peak();
  uint64_t seen() const { return most_ - std::min<uint64_t>(most_, before_); }

 private:
  uint64_t now() const;  ///< 0 where it cannot be read
  void look();

  int file_;
  uint64_t before_ = 0;
  std::atomic<uint64_t> most_ = 0;
  ControlThread thread_;
};

/// "memory per rank: planned 2.51 GB, peak 2.53 GB (rank 1, the largest of 4)": of the rank with the largest peak; of
/// one rank "memory: planned 2.51 GB, peak 2.53 GB". One value per rank.
std::string describe_memory(std::span<const uint64_t> planned, std::span<const uint64_t> peaks);

/// The same as a line of the log at the end of a run that all ranks came to. Collective.
void tell_memory(Scalars& scalars, uint64_t planned, uint64_t peak);

}  // namespace trireme
