#include "train/start/runnable.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "optim/optimizer.h"

namespace trireme {
namespace {

using Reasons = std::vector<std::string>;

Reasons of_layout(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  Reasons reasons;
  constexpr int kSeveral = 2;
  if (config.mesh.pipeline > 1 && exchanges_every_micro_batch(config.optim.shard, kSeveral))
    reasons.push_back(
        fmt::format("{} sums gradients among the data ranks after every micro-batch, and a pipeline of {} stages has "
                    "many of them between forward and backward; set --optim.shard optimizer, which shares what the "
                    "optimizer keeps, or none, or --mesh.pipeline 1",
                    loaded.where("optim.shard"), config.mesh.pipeline));
  if (config.optim.shard_group == ShardGroup::host && config.comm.reduce != ReduceOrder::hosts)
    reasons.push_back(
        fmt::format("{} is host, and gradients reach the ranks of a host by its sum; set --comm.reduce "
                    "hosts",
                    loaded.where("optim.shard-group")));
  if (config.optim.shard_group == ShardGroup::host && config.optim.shard == ShardChoice::none)
    reasons.push_back(
        fmt::format("{} is host, and optim.shard is none: nothing is shared; set --optim.shard optimizer, "
                    "gradients or parameters",
                    loaded.where("optim.shard-group")));
  return reasons;
}

void refuse(const Reasons& reasons) {
  if (reasons.empty()) return;
  if (reasons.size() == 1) fail(ErrorKind::config, "{}", reasons[0]);
  fail(ErrorKind::config, "{} settings cannot be trained with:\n  {}", reasons.size(), fmt::join(reasons, "\n  "));
}

}  // namespace

void require_layout(const LoadedConfig& loaded) { refuse(of_layout(loaded)); }

void require_runnable(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  Reasons reasons = of_layout(loaded);
  if (config.optim.shard != ShardChoice::none && config.run.on_difference == OnDifference::heal &&
      loaded.given("run.on-difference"))
    reasons.push_back(fmt::format(
        "{} copies a rank's state from a good one, and with {} no other rank has it; set --run.on-difference stop",
        loaded.where("run.on-difference"), loaded.where("optim.shard")));
  if (config.precision.dtype == DType::f16)
    reasons.push_back(fmt::format("{} is f16, and CPUs do not train in it; set --precision.dtype bf16",
                                  loaded.where("precision.dtype")));
  if (const std::string& local = config.checkpoint.local; !local.empty() && local.front() != '/')
    reasons.push_back(
        fmt::format("{} is {}: expected the whole path of a folder that every host has on a disk of its own, like "
                    "/scratch",
                    loaded.where("checkpoint.local"), local));
  refuse(reasons);
}

}  // namespace trireme
