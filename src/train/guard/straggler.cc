#include "train/guard/straggler.h"

#include <algorithm>
#include <vector>

#include "base/log.h"

namespace trireme {
namespace {

constexpr double kSlow = 1.5;  // ranks on equal machines differ by far less over a second
constexpr double kShortest = 1.0;

}  // namespace

std::optional<Straggler> StragglerWatch::find(std::span<const double> busy, int64_t steps) {
  std::vector<double> seconds(busy.begin(), busy.end());
  const auto slowest = std::max_element(seconds.begin(), seconds.end());
  Straggler found;
  found.rank = static_cast<int>(slowest - seconds.begin());
  found.busy = *slowest;
  if (found.busy * static_cast<double>(steps) < kShortest) return {};
  seconds.erase(slowest);
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  found.others = *middle;
  found.lost = 1 - found.others / found.busy;
  const bool slow = found.busy > kSlow * found.others;
  const bool twice = slow && suspect_ == found.rank;
  suspect_ = slow ? found.rank : -1;
  if (!slow) reported_ = -1;
  if (!twice || reported_ == found.rank) return {};
  reported_ = found.rank;
  return found;
}

void StragglerWatch::warn(Scalars& scalars, std::string_view host, std::span<const double> busy, int64_t steps) {
  if (scalars.size() == 1) return;
  const auto slow = find(busy, steps);
  if (!slow) return;
  const std::string its_host = scalars.broadcast(host, slow->rank);
  log::write_once(log::Level::warning,
                  fmt::format("rank {} on {} is slow: {:.1f} ms of work per step, the others need {:.1f} ms; the job "
                              "spends {:.0f} % of its time waiting for it",
                              slow->rank, its_host, 1e3 * slow->busy, 1e3 * slow->others, 100 * slow->lost));
}

}  // namespace trireme
