#include "train/straggler.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace trireme {
namespace {

constexpr double kSlow = 1.5;  // ranks of equal machines differ by far less over a second
constexpr double kShortest = 1.0;

}  // namespace

std::optional<Straggler> StragglerWatch::judge(std::span<const uint64_t> busy, int64_t steps) {
  std::vector<double> seconds;
  for (const uint64_t bits : busy) seconds.push_back(std::bit_cast<double>(bits));
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
  if (!slow) told_ = -1;
  if (!twice || told_ == found.rank) return {};
  told_ = found.rank;
  return found;
}

}  // namespace trireme
