#include "train/plan_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "plan/layout_choices.h"

namespace trireme {
namespace {

constexpr double kDifference = 0.1;  ///< from which on the cause is named

std::string likely_cause(const PlannedTime& plan, const SeenSteps& seen) {
  const double more = seen.seconds - plan.total();
  const double planned_waiting = plan.exchange + plan.tensor_sums + plan.stage_messages + plan.bubble;
  if (more < 0) return "the peak or the copy rate was measured while other programs used the machine";
  constexpr double kMost = 0.5;  // of the difference
  if (const double waited = seen.waiting - planned_waiting; waited > kMost * more)
    return fmt::format(
        "waiting for other ranks, {:.3f} s{}{}", seen.waiting,
        seen.unknown_links ? ", part of it for messages over links whose rate the plan does not know" : "",
        seen.rows > 0 ? ", part of it because their batches have more tokens" : "");
  constexpr double kBusy = 0.05;
  if (seen.others > kBusy)
    return fmt::format("other programs used {:.0f} % of the processors at the start", 1e2 * seen.others);
  return "operators slower than products and copies of this machine; --log.profile 5 shows which";
}

}  // namespace

void RecentSteps::add(double seconds, double waiting, const StepRows& rows) {
  const size_t at = count_ % kKept;
  seconds_[at] = seconds;
  waiting_[at] = waiting;
  micro_batches_[at] = rows.micro_batches;
  rows_[at] = rows.rows;
  squares_[at] = rows.squares;
  counted_[at] = rows.counted;
  ++count_;
}

double RecentSteps::mean(const std::array<double, kKept>& values) const {
  const size_t first = count_ > 1 && count_ <= kKept ? 1 : 0, end = std::min(count_, kKept);
  if (end == 0) return 0;
  const double sum = std::accumulate(values.begin() + static_cast<ptrdiff_t>(first),
                                     values.begin() + static_cast<ptrdiff_t>(end), 0.0);
  return sum / static_cast<double>(end - first);
}

StepRows RecentSteps::mean_rows() const { return {mean(micro_batches_), mean(rows_), mean(squares_), mean(counted_)}; }

double RecentSteps::median(const std::array<double, kKept>& values) const {
  if (count_ == 0) return 0;
  std::vector<double> sorted(values.begin(), values.begin() + static_cast<ptrdiff_t>(std::min(count_, kKept)));
  const auto middle = sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

std::string compare_with_plan(const PlannedTime& plan, const SeenSteps& seen) {
  const double difference = seen.seconds / plan.total() - 1;
  const std::string size = seen.rows > 0 ? fmt::format(" of {:.0f} tokens on average", seen.rows) : "";
  std::string text =
      fmt::format("step{}: {:.3f} s planned with the rates of this machine ({}), {:.3f} s measured ({:+.1f} %)", size,
                  plan.total(), causes_text(plan, 0.01), seen.seconds, 1e2 * difference);
  if (std::abs(difference) > kDifference) text += "; likely cause: " + likely_cause(plan, seen);
  return text;
}

}  // namespace trireme
