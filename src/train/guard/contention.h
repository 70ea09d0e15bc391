#pragma once
// Detects that other programs use the processors that a rank computes on.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "base/team_wait.h"
#include "base/time.h"
#include "comm/scalars.h"

namespace trireme {

struct Contention {
  int rank = 0;
  double share = 0;  ///< of its threads' time, in which they were ready but did not run
};

class ContentionWatch {
 public:
  explicit ContentionWatch(
      int threads, std::function<std::optional<double>()> waited = [] { return seconds_without_processor(); })
      : threads_(threads), waited_(std::move(waited)), before_(waited_()) {}

  /// The share of this rank over an interval that ends here; 0 while the interval is too short, or if the kernel does
  /// not report it.
  double share(Clock::time_point now);
  /// shares: the bits of each rank's share (doubles). Returns the rank with the largest share above a third, once.
  /// Depends only on what every rank knows, so that all decide the same.
  std::optional<Contention> find(std::span<const uint64_t> shares);
  /// Collective. Warns of the rank that find() returns.
  void warn(Scalars& scalars, std::string_view host, Clock::time_point now = Clock::now());

 private:
  int threads_;
  std::function<std::optional<double>()> waited_;
  std::optional<double> before_;
  Clock::time_point begin_ = Clock::now();
  bool reported_ = false;
};

}  // namespace trireme
