#include "train/start/runnable.h"

#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "base/option_name.h"
#include "ops/gpu_library.h"
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
        fmt::format("{} sums gradients among the data ranks after every micro-batch, but a pipeline of {} stages has "
                    "many micro-batches in flight; set --optim.shard to optimizer (shards the optimizer state) or "
                    "none, or --mesh.pipeline 1",
                    loaded.where("optim.shard"), config.mesh.pipeline));
  if (config.optim.shard_group == ShardGroup::host && config.comm.reduce != ReduceOrder::hosts)
    reasons.push_back(fmt::format("{} is host, which needs hierarchical sums of gradients; set --comm.reduce hosts",
                                  loaded.where("optim.shard-group")));
  if (config.optim.shard_group == ShardGroup::host && config.optim.shard == ShardChoice::none)
    reasons.push_back(
        fmt::format("{} is host, but optim.shard is none; set --optim.shard to optimizer, gradients or parameters",
                    loaded.where("optim.shard-group")));
  return reasons;
}

void refuse(const Reasons& reasons) {
  if (reasons.empty()) return;
  if (reasons.size() == 1) fail(ErrorKind::config, "{}", reasons[0]);
  fail(ErrorKind::config, "cannot train with {} settings:\n  {}", reasons.size(), fmt::join(reasons, "\n  "));
}

}  // namespace

std::string reason_against_gpus(const Config& config, int64_t data) {
  if (!exchanges_every_micro_batch(config.optim.shard, static_cast<int>(data))) return {};
  return fmt::format(
      "optim.shard is {}, which GPUs do not support: their memory is not given back in parts; set {} (shards the "
      "optimizer state), or {}",
      name_of(config.optim.shard), option_name("--optim.shard optimizer"), option_name("--run.device cpu"));
}

void require_layout(const LoadedConfig& loaded) { refuse(of_layout(loaded)); }

void require_layout_on_gpus(const LoadedConfig& loaded, int64_t data) {
  Reasons reasons = of_layout(loaded);
  if (const std::string against = reason_against_gpus(loaded.config, data); !against.empty())
    reasons.push_back(against);
  refuse(reasons);
}

void require_runnable(const LoadedConfig& loaded) {
  const Config& config = loaded.config;
  Reasons reasons = of_layout(loaded);
  if (config.optim.shard != ShardChoice::none && config.run.on_difference == OnDifference::heal &&
      loaded.given("run.on-difference"))
    reasons.push_back(fmt::format(
        "{} copies a rank's state from another rank, but with {} no other rank has it; set --run.on-difference stop",
        loaded.where("run.on-difference"), loaded.where("optim.shard")));
  const bool on_cpus = config.run.device == DeviceChoice::cpu || gpu_library_path().empty();
  if (config.precision.dtype == DType::f16 && on_cpus)
    reasons.push_back(fmt::format("{} is f16, which is unsupported for training on CPUs; set {}",
                                  loaded.where("precision.dtype"), option_name("--precision.dtype bf16")));
  if (config.comm.reduce == ReduceOrder::nccl && on_cpus)
    reasons.push_back(
        fmt::format("{} is nccl, which adds gradients between GPUs, and this run computes on CPUs; set {}",
                    loaded.where("comm.reduce"), option_name("--comm.reduce auto")));
  if (const std::string& local = config.checkpoint.local; !local.empty() && local.front() != '/')
    reasons.push_back(
        fmt::format("{} is {}: expected the absolute path of a folder on a local disk of every host, like /scratch",
                    loaded.where("checkpoint.local"), local));
  refuse(reasons);
}

}  // namespace trireme
