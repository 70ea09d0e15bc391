#include "train/start/resolve.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/count.h"
#include "base/error.h"
#include "config/validate.h"
#include "hub/place.h"
#include "model/model_options.h"
#include "ops/gpu_library.h"
#include "optim/optimizer.h"

namespace trireme {

Spec spec_of_folder(const ModelFolder& folder, const LoadedConfig& loaded) {
  Spec spec = with_given_options(folder.spec, loaded);
  require_same_model(folder, spec);
  return spec;
}

void resolve_model(LoadedConfig& loaded) {
  const std::string& init = loaded.config.model.init;
  if (init.empty() || init == "scratch") return resolve_model_options(loaded);
  if (!std::filesystem::exists(init) && !hub::still_to_fetch({.model = init}).empty()) return;
  const ModelFolder folder = open_model(init);
  const Spec spec = spec_of_folder(folder, loaded);
  settle_model_options(loaded, spec, folder.path);
  loaded.derive("model.vocabulary", spec.vocabulary, folder.path);
}

void settle_model(RunPlan& plan) {
  const ModelOptions& model = plan.config().model;
  const bool named = !model.init.empty() && model.init != "scratch";
  const std::string by = plan.resume            ? plan.resume->path
                         : named                ? model.init
                         : model.preset.empty() ? std::string()
                                                : "preset " + model.preset;
  settle_model_options(plan.loaded, plan.part.spec, by);
  plan.loaded.derive("model.vocabulary", plan.part.spec.vocabulary,
                     plan.resume || named ? by : "the data or the preset");
}

MeshShape mesh_of(const MeshOptions& options, int ranks, const std::string& source) {
  MeshShape mesh = resolve_mesh({options.data, options.tensor, options.pipeline}, ranks, source);
  mesh.chunks = options.chunks;
  require(!options.sequence || mesh.tensor > 1, ErrorKind::config,
          "mesh.sequence splits rows among tensor ranks, but mesh.tensor is 1; set --mesh.tensor to at least 2, or "
          "--mesh.sequence false");
  std::istringstream words(options.stages);
  for (std::string word; std::getline(words, word, ',');) {
    const Value value = resolve_plain(word);
    const auto* layers = std::get_if<int64_t>(&value);
    require(layers, ErrorKind::config, "mesh.stages is \"{}\", expected layers of each stage, like 8,4",
            options.stages);
    mesh.stages.push_back(*layers);
  }
  return mesh;
}

void resolve_for_ranks(LoadedConfig& loaded, int ranks, const std::string& source) {
  MeshOptions& mesh = loaded.config.mesh;
  const MeshShape shape = mesh_of(mesh, ranks, source);
  loaded.derive("mesh.data", shape.data, count_text(ranks, "rank"));
  BatchOptions& batch = loaded.config.batch;
  const BatchPlan plan = plan_batch(loaded, static_cast<int>(shape.data));
  const std::string product = fmt::format("{}, {} x {}", loaded.where("batch.per-rank"), batch.per_rank,
                                          count_text(shape.data, "data-parallel rank"));
  loaded.derive("batch.global", plan.global, product);
  if (batch.per_rank > 0) {  // batch.global has replaced it
    batch.per_rank = 0;
    loaded.origins.erase("batch.per-rank");
  }
  const std::string rest = fmt::format("{} on each of {}", count_text(plan.per_rank, "sequence"),
                                       count_text(shape.data, "data-parallel rank"));
  loaded.derive("batch.micro", plan.micro, rest);
  loaded.derive("batch.accumulation", plan.accumulation, rest);
}

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
      name_of(config.optim.shard), config.names("--optim.shard optimizer"), config.names("--run.device cpu"));
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
                                  loaded.where("precision.dtype"), config.names("--precision.dtype bf16")));
  if (config.comm.reduce == ReduceOrder::nccl && on_cpus)
    reasons.push_back(
        fmt::format("{} is nccl, which adds gradients between GPUs, and this run computes on CPUs; set {}",
                    loaded.where("comm.reduce"), config.names("--comm.reduce auto")));
  if (const std::string& local = config.checkpoint.local; !local.empty() && local.front() != '/')
    reasons.push_back(
        fmt::format("{} is {}: expected the absolute path of a folder on a local disk of every host, like /scratch",
                    loaded.where("checkpoint.local"), local));
  refuse(reasons);
}

}  // namespace trireme
