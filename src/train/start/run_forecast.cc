#include "train/start/run_forecast.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "model/mesh_layout.h"
#include "plan/layout_choices.h"
#include "train/start/rank_table.h"
#include "train/start/resolve_ranks.h"
#include "train/start/runnable.h"

namespace trireme {
namespace {

constexpr double kUsable = 0.95;  ///< share of a node's memory: the system and MPI take the rest

constexpr std::pair<Recompute, Recomputed> kRecomputes[] = {{Recompute::none, Recomputed::nothing},
                                                            {Recompute::attention, Recomputed::attention},
                                                            {Recompute::full, Recomputed::layers}};

}  // namespace

ModelSize size_of_model(const Spec& spec, int64_t sequence) {
  return {.layers = spec.layers,
          .width = spec.width,
          .heads = spec.heads,
          .sequence = sequence,
          .vocabulary = spec.vocabulary_rows,
          .inner = spec.inner_width,
          .kv_heads = spec.kv_heads(),
          .head_size = spec.head_dim(),
          .gated = spec.gated};
}

StepLayout layout_of_run(const Config& config, const RankPlan& plan) {
  StepLayout layout;
  layout.data = plan.mesh.data;
  layout.tensor = plan.mesh.tensor;
  layout.pipeline = plan.mesh.pipeline;
  layout.chunks = plan.mesh.chunks;
  layout.global_batch = config.batch.global;
  layout.micro_batch = plan.step.micro_sequences;
  layout.sequence_parallel = config.mesh.sequence;
  layout.shard = config.optim.shard;
  for (const auto& [option, recomputed] : kRecomputes) {
    if (option == config.model.recompute) layout.recomputed = recomputed;
  }
  return layout;
}

RunFormats formats_of(const Config& config) {
  return {config.precision.dtype, config.comm.wire, config.comm.reduce == ReduceOrder::hosts};
}

namespace {

MachineRates rates_for(const RunFormats& formats, const PlannedNodes& on) {
  return trireme_rates(on.type, on.per_node, formats);
}

/// A layout, what it would cost and on how many nodes, before its memory is planned.
struct Candidate {
  StepLayout layout;
  int64_t nodes = 1;
  double seconds = 0, rank = 0;  ///< rank: less is better
};

std::vector<Candidate> candidates_of(const RunForecast& given, const RunFormats& formats, PlanGoal goal) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; goal == PlanGoal::cost && n < given.on.nodes; n *= 2) counts.push_back(n);
  counts.push_back(given.on.nodes);
  const MachineRates rates = rates_for(formats, given.on);
  std::vector<Candidate> candidates;
  for (const int64_t nodes : counts) {
    PlannedNodes on = given.on;
    on.nodes = nodes;
    for (const StepLayout& layout : possible_layouts(given.model, on.ranks(), given.layout.global_batch)) {
      if (least_memory(given.model, layout, rates.element_bytes) > given.memory_limit()) continue;
      const double seconds = step_time(given.model, layout, rates).total();
      const double rough = rough_memory(given.model, layout, rates.element_bytes);
      // Of costs within 1 % the shorter time is better.
      const double cost = std::round(1e2 * std::log(seconds * static_cast<double>(nodes)));
      candidates.push_back({layout, nodes, seconds,
                            goal == PlanGoal::memory ? rough
                            : goal == PlanGoal::cost ? cost
                                                     : seconds});
    }
  }
  std::ranges::stable_sort(candidates, [&](const Candidate& a, const Candidate& b) {
    return std::tuple(a.rank, a.seconds) < std::tuple(b.rank, b.seconds);
  });
  return candidates;
}

auto mesh_key(const Candidate& one) {
  return std::tuple(one.nodes, one.layout.data, one.layout.tensor, one.layout.pipeline);
}

/// Sequences of a step on so many ranks.
int64_t global_batch_on(const LoadedConfig& loaded, int64_t ranks) {
  const BatchOptions& batch = loaded.config.batch;
  if (batch.per_rank == 0) return batch.global;
  return batch.per_rank * mesh_of(loaded.config.mesh, static_cast<int>(ranks), "--nodes").data;
}

/// Nullopt: the trainer refuses it, or it does not fit.
std::optional<RunForecast> tried(const LoadedConfig& loaded, const PlannedNodes& on, const StepLayout& layout) {
  try {
    RunForecast forecast = forecast_run(with_layout(loaded, layout), on);
    if (forecast.fits()) return forecast;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::config) throw;
  }
  return {};
}

}  // namespace

double RunForecast::memory() const {
  return static_cast<double>(on.type.gpus > 0 ? plan.memory.on_device() : plan.memory.total());
}

double RunForecast::memory_limit() const {
  const double sharers = on.type.gpus > 0 ? 1 : static_cast<double>(on.per_node);
  return kUsable * on.type.memory_gb * 1e9 / sharers;
}

double RunForecast::days() const {
  constexpr double kDay = 86400;
  return time.total() * static_cast<double>(steps) / kDay;
}

double RunForecast::dollars() const {
  constexpr double kHours = 24;
  return days() * kHours * on.type.price_per_hour * static_cast<double>(on.nodes);
}

LoadedConfig with_layout(LoadedConfig loaded, const StepLayout& layout) {
  Config& config = loaded.config;
  config.mesh.data = layout.data;
  config.mesh.tensor = layout.tensor;
  config.mesh.pipeline = layout.pipeline;
  config.mesh.chunks = layout.chunks;
  config.mesh.stages.clear();
  config.mesh.sequence = layout.sequence_parallel;
  config.batch.global = layout.global_batch;
  config.batch.per_rank = 0;
  config.batch.micro = layout.micro_batch;
  config.batch.accumulation = 0;
  config.optim.shard = layout.shard;
  for (const auto& [option, recomputed] : kRecomputes) {
    if (recomputed == layout.recomputed) config.model.recompute = option;
  }
  loaded.origins.erase("batch.per-rank");
  return loaded;
}

std::string layout_yaml(const StepLayout& layout) {
  std::string_view recompute;
  for (const auto& [option, recomputed] : kRecomputes) {
    if (recomputed == layout.recomputed) recompute = name_of(option);
  }
  return fmt::format(
      "mesh:\n  data: {}\n  tensor: {}\n  pipeline: {}\n  chunks: {}\n  sequence: {}\nbatch:\n  global: {}\n  micro: "
      "{}\n"
      "  accumulation: {}\noptim:\n  shard: {}\nmodel:\n  recompute: {}\n",
      layout.data, layout.tensor, layout.pipeline, layout.chunks, layout.sequence_parallel, layout.global_batch,
      layout.micro_batch, layout.micro_batches(), name_of(layout.shard), recompute);
}

RunForecast forecast_run(LoadedConfig loaded, const PlannedNodes& on) {
  require(
      on.type.gpus == 0 || on.ranks() == 1, ErrorKind::config,
      "so far only one GPU can be planned, but {} x {} ranks are planned for nodes of type {}; plan one node with one "
      "rank, or a type without GPUs",
      on.nodes, on.per_node, on.type.name);
  resolve_for_ranks(loaded, static_cast<int>(on.ranks()));
  require_layout(loaded);
  const int threads = static_cast<int>(std::max<int64_t>(1, on.type.cores / on.per_node));
  RunForecast forecast;
  forecast.plan = largest_rank(loaded, static_cast<int>(on.ranks()), static_cast<int>(on.nodes), threads);
  // The plan's operators are those of CPUs, whose scratch is larger.
  if (on.type.gpus > 0) forecast.plan.memory.scratch = 0;
  const Config& config = loaded.config;
  const int64_t sequence = config.batch.sequence == 0 ? forecast.plan.spec.context : config.batch.sequence;
  forecast.on = on;
  forecast.model = size_of_model(forecast.plan.spec, sequence);
  forecast.layout = layout_of_run(config, forecast.plan);
  const MachineRates rates = rates_for(formats_of(config), on);
  forecast.time = step_time(forecast.model, forecast.layout, rates);
  forecast.bytes = link_bytes(forecast.model, forecast.layout, rates);
  forecast.tokens = static_cast<double>(config.batch.global * sequence);
  forecast.flops = forecast.tokens * train_flops_per_token(forecast.plan.spec, sequence);
  forecast.steps = config.run.steps;
  return forecast;
}

SimulatedStep simulate_run(const RunForecast& forecast, SimulationOptions options) {
  options.part_layers.clear();
  for (const ModelPart& part : stages_of(forecast.plan.spec, forecast.plan.mesh))
    options.part_layers.push_back(part.layers());
  return simulate_step(forecast.model, forecast.layout, rates_for(formats_of(forecast.plan.loaded.config), forecast.on),
                       options);
}

std::vector<RunForecast> best_layouts(const LoadedConfig& loaded, const PlannedNodes& on, PlanGoal goal, size_t count) {
  require(
      goal != PlanGoal::cost || on.type.price_per_hour > 0, ErrorKind::config,
      "--goal cost needs a price, and node type {} has none; set price-per-hour in a .yaml file of the type, or add "
      "--node TYPE with a price",
      on.type.name);
  // Sizes of model and batch; its own layout may be impossible, so that one rank holds everything.
  PlannedNodes alone = on;
  alone.nodes = alone.per_node = 1;
  StepLayout whole;
  whole.global_batch = global_batch_on(loaded, on.ranks());
  RunForecast sizes = forecast_run(with_layout(loaded, whole), alone);
  sizes.on = on;
  const std::vector<Candidate> candidates = candidates_of(sizes, formats_of(sizes.plan.loaded.config), goal);
  std::set<decltype(mesh_key(candidates[0]))> meshes, taken;
  for (const Candidate& one : candidates) meshes.insert(mesh_key(one));
  const size_t wanted = goal == PlanGoal::memory ? 10 * count : count;  // ordered by the plan below
  std::vector<RunForecast> best;
  for (const Candidate& one : candidates) {
    if (best.size() == wanted) break;
    if (meshes.size() > 1 && taken.contains(mesh_key(one))) continue;
    PlannedNodes nodes = on;
    nodes.nodes = one.nodes;
    if (std::optional<RunForecast> forecast = tried(loaded, nodes, one.layout)) {
      best.push_back(std::move(*forecast));
      taken.insert(mesh_key(one));
    }
  }
  if (goal == PlanGoal::memory)
    std::ranges::stable_sort(best, [](const RunForecast& a, const RunForecast& b) { return a.memory() < b.memory(); });
  best.resize(std::min(count, best.size()));
  return best;
}

}  // namespace trireme
