#pragma once
// What an ApartDevice (apart_device.h) counts, and what tests may break about it.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "tensor/view.h"

namespace trireme {

/// What a device was asked for so far.
struct DeviceCounts {
  int64_t allocations = 0;      ///< of its memory, and of pinned memory
  int64_t host_waits = 0;       ///< for its work
  int64_t batches_before = 0;   ///< copies from pinned memory before the last of these waits
  int64_t batches_after = 0;    ///< and after it
  int64_t pageable_copies = 0;  ///< from memory that is not pinned
};

/// For tools that look for needless waits, and for tests of what finds a broken device.
struct ApartFaults {
  /// Whether a wait for an event, of the host or of a stream, does not happen. asks: whether it was reached.
  bool (*drops)(bool asks) = [](bool) { return false; };
  /// How late streams begin with each item of their work: the default one, and others.
  std::chrono::microseconds late_default{20}, late_others{20};
  /// Called with the first result, on the host, of what has been done: operators by the names of Ops (not all),
  /// "copy" and "copy_later" to the host, "message" that has arrived.
  void (*spoils)(std::string_view work, View result) = nullptr;
  void spoil(std::string_view work, View result) const {
    if (spoils != nullptr) spoils(work, result);
  }
  /// Calls of all devices so far, and the one from which on every call fails, as after a fault of a GPU.
  std::atomic<int64_t> calls = 0, fails_from = std::numeric_limits<int64_t>::max();
  void call(const char* what) {
    ++calls;
    look(what);
  }
  /// The same for a call of which a run has more or fewer, and which does not count.
  void look(const char* what) const {
    if (calls >= fails_from) fail(ErrorKind::io, "{} failed: an illegal memory access was encountered", what);
  }
};
inline ApartFaults apart_faults;

}  // namespace trireme
