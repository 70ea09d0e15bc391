#include "train/skips.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "comm/agreement.h"

namespace trireme {
namespace {

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(fmt::format("{}", value)); }

Json to_json(const SkippedStep& skip) {
  return {{"step", skip.step},
          {"first_sample", skip.first_sample},
          {"last_sample", skip.last_sample},
          {"loss", number(skip.loss)},
          {"norm", number(skip.norm)}};
}

/// "; see PATH" for a message; "" with a warning for a folder that cannot be written.
std::string write_list(const std::string& path, const std::vector<SkippedStep>& steps) {
  Json list = Json::array();
  for (const SkippedStep& skip : steps) list.push_back(to_json(skip));
  try {
    write_text(path, list.dump(1) + "\n");
  } catch (const Error& e) {
    log::warning("{}", e.what());
    return {};
  }
  return "; see " + path;
}

}  // namespace

void SkipWatch::add(const SkippedStep& step) {
  const std::string why = step.finite ? fmt::format("loss {:.4f} is a spike above {:.4f}", step.loss, step.limit)
                                      : fmt::format("loss {} or gradient norm {} is not finite", step.loss, step.norm);
  log::write_once(log::Level::warning, fmt::format("step {} skipped: {}; samples {} to {}", step.step, why,
                                                   step.first_sample, step.last_sample));
  steps_.push_back(step);
}

void SkipWatch::check(int64_t in_a_row, Scalars& scalars) const {
  if (in_a_row < most_) return;
  const std::string where = scalars.rank() == 0 ? write_list(run_dir_ + "/bad-samples.json", steps_) : std::string();
  const bool spikes = std::ranges::any_of(steps_, &SkippedStep::finite);
  throw CommonError(
      ErrorKind::numeric,
      fmt::format("loss or gradients were not finite{} {} steps in a row, up to step {} (samples {} to {}{}); lower "
                  "optim.learning-rate or resume from an earlier snapshot",
                  spikes ? ", or the loss a spike," : "", in_a_row, steps_.back().step, steps_.front().first_sample,
                  steps_.back().last_sample, where));
}

}  // namespace trireme
