#include "train/guard/contention.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <vector>

#include "base/log.h"

namespace trireme {
namespace {

// Above what a rank's own helper threads take when they share its processors.
constexpr double kMuch = 1.0 / 3;
// A short burst of another program, such as a compiler, needs no warning.
constexpr double kShortest = 10;

}  // namespace

double ContentionWatch::share(Clock::time_point now) {
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  if (seconds < kShortest) return 0;
  const std::optional<double> waited = waited_();
  const double lacked = waited && before_ ? *waited - *before_ : 0;
  begin_ = now;
  before_ = waited;
  return std::clamp(lacked / (seconds * threads_), 0.0, 1.0);  // threads that have ended are not counted
}

std::optional<Contention> ContentionWatch::find(std::span<const uint64_t> shares) {
  Contention found;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    const double share = std::bit_cast<double>(shares[rank]);
    if (share > found.share) found = {static_cast<int>(rank), share};
  }
  if (reported_ || found.share <= kMuch) return {};
  reported_ = true;
  return found;
}

void ContentionWatch::warn(Scalars& scalars, std::string_view host, Clock::time_point now) {
  const auto found = find(scalars.gather_values(std::bit_cast<uint64_t>(share(now))));
  if (!found) return;
  const std::string its_host = scalars.broadcast(host, found->rank);
  log::write_once(
      log::Level::warning,
      fmt::format("other programs use the processors: for {:.0f} % of the last seconds the threads of rank {} on {} "
                  "were ready to compute but had no processor, so every step takes longer; `top` shows those programs "
                  "(or this host has more ranks than cores). This warning is shown once",
                  100 * found->share, found->rank, its_host));
}

}  // namespace trireme
