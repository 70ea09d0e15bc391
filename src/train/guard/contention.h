#pragma once
// Finds that other programs have the processors that a rank computes on.

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
  double share = 0;  ///< of its threads' time in which they were ready to run and did not
};

class ContentionWatch {
 public:
  explicit ContentionWatch(
      int threads, std::function<std::optional<double>()> waited = [] { return seconds_without_processor(); })
      : threads_(threads), waited_(std::move(waited)), before_(waited_()) {}

  /// The share of this rank since the last interval that was long enough, which ends here; 0 while the next one is too
  /// short to tell, and where the kernel does not tell.
  double share(Clock::time_point now);
  /// shares: the bits of each rank's (doubles). The rank that lacks most, if that is more than a third: told of once.
  /// Depends on what every rank knows alone, so that all judge alike.
  std::optional<Contention> judge(std::span<const uint64_t> shares);
  /// Collective. Warns of whom it finds.
  void tell(Scalars& scalars, std::string_view host, Clock::time_point now = Clock::now());

 private:
  int threads_;
  std::function<std::optional<double>()> waited_;
  std::optional<double> before_;
  Clock::time_point begin_ = Clock::now();
  bool told_ = false;
};

}  // namespace trireme
