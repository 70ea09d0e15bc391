#include "train/runnable.h"

#include <fmt/ranges.h>

#include <vector>

#include "base/error.h"

namespace trireme {

void require_runnable(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  std::vector<std::string> reasons;
  if (config.optim.shard != ShardChoice::none)
    reasons.push_back(
        fmt::format("{} asks for sharded state, and every rank holds all of it yet; set --optim.shard none",
                    loaded.where("optim.shard")));
  if (config.precision.dtype == DType::f16)
    reasons.push_back(fmt::format("{} is f16, and CPUs do not train in it; set --precision.dtype bf16",
                                  loaded.where("precision.dtype")));
  if (reasons.empty()) return;
  if (reasons.size() == 1) fail(ErrorKind::config, "{}", reasons[0]);
  fail(ErrorKind::config, "{} settings cannot be trained with:\n  {}", reasons.size(), fmt::join(reasons, "\n  "));
}

}  // namespace trireme
