#include "train/guard/skips.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "comm/agreement.h"

namespace trireme {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

Json to_json(const SkipWatch::Skip& skip) {
  return {{"step", skip.step},
          {"first_sample", skip.first_sample},
          {"last_sample", skip.last_sample},
          {"loss", number(skip.result.loss)},
          {"norm", number(skip.result.norm)}};
}

/// "; see PATH" for a message; "" with a warning for a folder that cannot be written.
std::string write_list(const std::string& path, const std::vector<SkipWatch::Skip>& skips) {
  Json list = Json::array();
  for (const SkipWatch::Skip& skip : skips) list.push_back(to_json(skip));
  try {
    write_text(path, dump_valid_json(list, 1) + "\n");
  } catch (const Error& e) {
    log::warning("{}", e.what());
    return {};
  }
  return "; see " + path;
}

}  // namespace

void SkipWatch::account(const StepResult& result, int64_t samples, double limit, RunCounters& progress,
                        Scalars& scalars) {
  const uint64_t first = progress.samples;
  ++progress.step;
  progress.samples += static_cast<uint64_t>(samples);
  if (progress.loss_scale && !result.overflow) count_clean_step(*progress.loss_scale, scaling_.value());
  if (!result.skipped) {
    ++progress.updates;
    progress.consecutive_skips = 0;
    skips_.clear();
    return;
  }
  ++progress.skipped;
  if (result.overflow) return overflow(progress);
  ++progress.consecutive_skips;
  const std::string why = result.finite
                              ? fmt::format("loss {:.4f} is a spike above {:.4f}", result.loss, limit)
                              : fmt::format("loss {} or gradient norm {} is not finite", result.loss, result.norm);
  log::write_once(log::Level::warning, fmt::format("step {} skipped: {}; samples {} to {}", progress.step, why, first,
                                                   progress.samples - 1));
  skips_.push_back({progress.step, first, progress.samples - 1, result});
  if (progress.consecutive_skips >= maximum_) stop(progress.consecutive_skips, scalars);
}

void SkipWatch::overflow(RunCounters& progress) const {
  LossScale& scale = progress.loss_scale.value();
  const double used = scale.scale;
  const Overflow verdict = count_overflow(scale, scaling_.value());
  ++progress.overflows;
  if (verdict == Overflow::skipped) {
    const std::string next = scale.scale < used ? fmt::format("lowered from {} to {}", used, scale.scale)
                                                : fmt::format("remains {}", scale.scale);
    return log::write_once(log::Level::info, fmt::format("step {} skipped: its gradients overflowed in f16; the loss "
                                                         "scale {}",
                                                         progress.step, next));
  }
  throw CommonError(
      ErrorKind::numeric,
      fmt::format("step {}: gradients overflowed in f16 {}; lower {}, resume from an earlier snapshot, or train with "
                  "{}",
                  progress.step,
                  verdict == Overflow::at_minimum ? fmt::format("at the smallest loss scale, {}", scale.scale)
                                                  : fmt::format("in {} in a row, the last at loss scale {}",
                                                                count_text(scale.in_a_row, "step"), used),
                  names_("optim.learning-rate"), names_("precision.dtype bf16")));
}

void SkipWatch::stop(int64_t in_a_row, Scalars& scalars) const {
  const std::string where = scalars.rank() == 0 ? write_list(run_dir_ + "/bad-samples.json", skips_) : std::string();
  const bool spikes = std::ranges::any_of(skips_, [](const Skip& skip) { return skip.result.finite; });
  throw CommonError(
      ErrorKind::numeric,
      fmt::format("loss or gradients were not finite{} {} in a row, up to step {} (samples {} to {}{}); lower "
                  "{} or resume from an earlier snapshot",
                  spikes ? ", or the loss a spike," : "", count_text(in_a_row, "step"), skips_.back().step,
                  skips_.front().first_sample, skips_.back().last_sample, where, names_("optim.learning-rate")));
}

namespace {

constexpr double kForget = 0.02;
constexpr int64_t kFewest = 50;
constexpr double kLeastDeviation = 0.01;

}  // namespace

void add_loss(LossTrend& trend, double loss) {
  // The first losses have equal weight, so that the very first one soon leaves the mean.
  const double weight = std::max(kForget, 1.0 / static_cast<double>(++trend.count));
  const double deviation = loss - trend.mean;
  trend.mean += weight * deviation;
  trend.variance = (1 - weight) * (trend.variance + weight * deviation * deviation);
}

double spike_limit(const LossTrend& trend, double score) {
  if (score == 0 || trend.count < kFewest) return std::numeric_limits<double>::infinity();
  return trend.mean + score * std::max(std::sqrt(trend.variance), kLeastDeviation * std::abs(trend.mean));
}

}  // namespace trireme
