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
#include "base/log.h"
#include "model/mesh_layout.h"
#include "optim/optimizer.h"
#include "plan/layout_choices.h"
#include "train/profile.h"
#include "train/start/rank_table.h"
#include "train/start/resolve.h"

namespace trireme {
namespace {

constexpr double kUsable = 0.95;  ///< share of a node's memory: the system and MPI take the rest

constexpr std::pair<Recompute, Recomputed> kRecomputes[] = {{Recompute::none, Recomputed::nothing},
                                                            {Recompute::attention, Recomputed::attention},
                                                            {Recompute::full, Recomputed::layers}};

}  // namespace

ModelSize size_of_model(const Spec& spec, int64_t sequence) {
  require(!spec.has_states(), ErrorKind::config,
          "the model has layers with a state (gated DeltaNet), whose time has no formula yet; `trireme bench "
          "step` measures a step");
  return {.layers = spec.layers,
          .width = spec.width,
          .heads = spec.heads,
          .sequence = sequence,
          .vocabulary = spec.vocabulary_rows,
          .inner = spec.inner_width,
          .kv_heads = spec.kv_heads(),
          .head_size = spec.head_dim(),
          .gated = spec.gated,
          .tied = spec.tied_head,
          .full_mask = spec.mask == Mask::full};
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

RunFormats formats_of(const Config& config, bool gpus) {
  const ReduceOrder order = config.comm.reduce;
  // NCCL's own rings cross the network as often as the sums of hosts do.
  const bool chosen = order == ReduceOrder::automatic && gpus;
  const bool host_sums = order == ReduceOrder::hosts || order == ReduceOrder::nccl || chosen;
  return {config.precision.dtype, config.comm.wire, host_sums, chosen};
}

namespace {

MachineRates rates_for(const RunFormats& formats, const PlannedNodes& on) {
  return trireme_rates(on.type, on.per_node, formats);
}

/// Throws Error::config for a run.device that such nodes do not have, or would not use.
void require_device(const LoadedConfig& loaded, const NodeType& type) {
  const DeviceChoice device = loaded.config.run.device;
  require(type.gpus == 0 || device != DeviceChoice::cpu, ErrorKind::config,
          "{} is cpu, but nodes of type {} are planned with their GPUs; set --run.device cuda, or name a type without "
          "GPUs",
          loaded.where("run.device"), type.name);
  require(type.gpus > 0 || device != DeviceChoice::cuda, ErrorKind::config,
          "{} is cuda, but nodes of type {} have no GPUs; name a type that has some, or set --run.device cpu",
          loaded.where("run.device"), type.name);
  if (type.gpus > 0) return;
  require(loaded.config.precision.dtype != DType::f16, ErrorKind::config,
          "{} is f16, in which CPUs cannot train, and nodes of type {} have no GPUs; set --precision.dtype bf16",
          loaded.where("precision.dtype"), type.name);
  require(loaded.config.comm.reduce != ReduceOrder::nccl, ErrorKind::config,
          "{} is nccl, which adds gradients between GPUs, and nodes of type {} have none; set --comm.reduce auto",
          loaded.where("comm.reduce"), type.name);
}

/// Sequences of a step on so many ranks.
int64_t global_batch_on(const LoadedConfig& loaded, int64_t ranks) {
  const BatchOptions& batch = loaded.config.batch;
  if (batch.per_rank == 0) return batch.global;
  return batch.per_rank * mesh_of(loaded.config.mesh, static_cast<int>(ranks), "--nodes").data;
}

double memory_limit(const PlannedNodes& on) {
  const double sharers = on.type.gpus > 0 ? 1 : static_cast<double>(on.per_node);
  return kUsable * on.type.memory_gb * 1e9 / sharers;
}

/// The shorter time is better if costs are within 1 %.
double rounded_cost(double seconds, int64_t nodes) {
  return std::round(1e2 * std::log(seconds * static_cast<double>(nodes)));
}

/// A layout, what it would cost and on how many nodes, before its memory is planned.
struct Candidate {
  StepLayout layout;
  int64_t nodes = 1;
  double seconds = 0, rank = 0;  ///< rank: less is better
};

/// The sizes of a model, whatever its own layout may be.
ModelSize searched_model(const LoadedConfig& loaded) {
  LoraOptions lora = loaded.config.lora;
  const Spec spec = planned_model(loaded, lora);
  const int64_t sequence = loaded.config.batch.sequence;
  return size_of_model(with_rows_for(spec, 1), sequence == 0 ? spec.context : sequence);
}

/// What the options fix is not searched.
std::vector<Candidate> candidates_of(const LoadedConfig& loaded, const PlannedNodes& given, PlanGoal goal) {
  const ModelSize model = searched_model(loaded);
  const int64_t batch = global_batch_on(loaded, given.ranks());
  const bool gpus = given.type.gpus > 0, shards = loaded.config.optim.shard_group == ShardGroup::host;
  std::vector<int64_t> counts;
  for (int64_t n = 1; goal == PlanGoal::cost && n < given.nodes; n *= 2) counts.push_back(n);
  counts.push_back(given.nodes);
  const MachineRates rates = rates_for(formats_of(loaded.config, gpus), given);
  std::vector<Candidate> candidates;
  for (const int64_t nodes : counts) {
    PlannedNodes on = given;
    on.nodes = nodes;
    for (const StepLayout& layout : possible_layouts(model, on.ranks(), batch)) {
      if (gpus && exchanges_every_micro_batch(layout.shard, static_cast<int>(layout.data))) continue;
      if (shards && layout.shard == ShardChoice::none) continue;
      if (least_memory(model, layout, rates.element_bytes) > memory_limit(given)) continue;
      const double seconds = step_time(model, layout, rates).total();
      const double rough = rough_memory(model, layout, rates.element_bytes);
      const double cost = rounded_cost(seconds, nodes);
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

/// Nullopt: the trainer refuses it, or it does not fit.
std::optional<RunForecast> that_fits(const LoadedConfig& loaded, const PlannedNodes& on) {
  try {
    RunForecast forecast = forecast_run(loaded, on);
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

double RunForecast::memory_limit() const { return trireme::memory_limit(on); }

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

namespace {

/// The formula does not know how stages wait for messages that share a network: the simulation does.
void take_simulated(RunForecast& forecast) {
  const StepLayout& layout = forecast.layout;
  constexpr int64_t kMostActions = 1 << 12;  // some milliseconds
  const int64_t groups =
      layout.ranks() <= SimulationOptions().exact_ranks ? layout.pipeline * layout.data : layout.pipeline;
  if (layout.pipeline == 1 || layout.ranks() <= forecast.on.per_node) return;
  if (groups * layout.micro_batches() * layout.chunks > kMostActions) return;
  double& waits = forecast.time.stage_messages;
  waits = std::max(0.0, waits + simulate_run(forecast, {}).seconds - forecast.time.total());
}

}  // namespace

RunForecast forecast_run(LoadedConfig loaded, const PlannedNodes& on) {
  require_device(loaded, on.type);
  const MachineRates rates =
      rates_for(formats_of(loaded.config, on.type.gpus > 0), on);  // throws for ranks that the nodes cannot have
  resolve_for_ranks(loaded, static_cast<int>(on.ranks()), "--nodes");
  require_layout(loaded);
  const int threads = static_cast<int>(std::max<int64_t>(1, on.type.cores / on.per_node));
  RunForecast forecast;
  forecast.plan = largest_rank(loaded, static_cast<int>(on.ranks()), static_cast<int>(on.nodes), threads,
                               on.type.gpus > 0 ? PlannedDevices::gpus : PlannedDevices::cpus);
  forecast.loaded = loaded;
  const Config& config = loaded.config;
  const int64_t sequence = config.batch.sequence == 0 ? forecast.plan.spec.context : config.batch.sequence;
  forecast.on = on;
  forecast.model = size_of_model(forecast.plan.spec, sequence);
  forecast.layout = layout_of_run(config, forecast.plan);
  forecast.time = step_time(forecast.model, forecast.layout, rates);
  forecast.bytes = link_bytes(forecast.model, forecast.layout, rates);
  forecast.tokens = static_cast<double>(config.batch.global * sequence);
  forecast.flops = forecast.tokens * train_flops_per_token(forecast.plan.spec, sequence);
  forecast.steps = config.run.steps;
  take_simulated(forecast);
  return forecast;
}

std::vector<Remedy> remedies_for(const LoadedConfig& loaded, const RunForecast& forecast) {
  std::vector<Remedy> remedies;
  const auto try_one = [&](const LoadedConfig& changed, const std::string& options) {
    std::optional<RunForecast> fits = that_fits(changed, forecast.on);
    if (fits) remedies.push_back({options, std::move(*fits)});
    return fits.has_value();
  };
  LoadedConfig wider = loaded;
  MeshOptions& mesh = wider.config.mesh;
  mesh.data = 0;  // follows, and so does the accumulation
  if (wider.config.batch.micro > 0) wider.config.batch.accumulation = 0;
  for (mesh.tensor *= 2; mesh.tensor * mesh.pipeline <= forecast.on.ranks(); mesh.tensor *= 2)
    if (try_one(wider, fmt::format("--mesh.tensor {}", mesh.tensor))) break;
  if (forecast.memory() - static_cast<double>(forecast.plan.memory.nccl) > forecast.memory_limit()) return remedies;
  LoadedConfig hosts = loaded, nccl = loaded;
  hosts.config.comm.reduce = ReduceOrder::hosts;
  hosts.config.optim.shard_group = ShardGroup::host;
  if (loaded.config.optim.shard != ShardChoice::none) try_one(hosts, "--optim.shard-group host --comm.reduce hosts");
  nccl.config.comm.reduce = ReduceOrder::nccl;
  nccl.config.optim.shard_group = ShardGroup::all;
  try_one(nccl, "--comm.reduce nccl");
  return remedies;
}

SimulatedStep simulate_run(const RunForecast& forecast, SimulationOptions options) {
  options.part_layers.clear();
  for (const ModelPart& part : stages_of(forecast.plan.spec, forecast.plan.mesh))
    options.part_layers.push_back(part.layers());
  return simulate_step(forecast.model, forecast.layout,
                       rates_for(formats_of(forecast.loaded.config, forecast.on.type.gpus > 0), forecast.on), options);
}

std::optional<std::vector<int64_t>> nodes_that_share_the_batch(const LoadedConfig& loaded, const PlannedNodes& on) {
  const ModelSize model = searched_model(loaded);
  const int64_t batch = global_batch_on(loaded, on.ranks());
  const auto shares = [&](int64_t nodes) { return !possible_layouts(model, nodes * on.per_node, batch).empty(); };
  if (shares(on.nodes)) return {};
  std::vector<int64_t> found;
  int64_t fewer = on.nodes - 1, more = on.nodes + 1;
  while (fewer > 0 && !shares(fewer)) --fewer;
  if (fewer > 0) found.push_back(fewer);
  const int64_t most = 2 * on.nodes;  // a power of two is between
  while (more <= most && !shares(more)) ++more;
  if (more <= most) found.push_back(more);
  return std::optional(std::move(found));
}

std::vector<RunForecast> best_layouts(const LoadedConfig& loaded, const PlannedNodes& on, PlanGoal goal, size_t count) {
  require(
      goal != PlanGoal::cost || on.type.price_per_hour > 0, ErrorKind::config,
      "--goal cost needs a price, and node type {} has none; set price-per-hour in a .yaml file of the type, or add "
      "--node TYPE with a price",
      on.type.name);
  const std::vector<Candidate> candidates = candidates_of(loaded, on, goal);
  std::set<decltype(mesh_key(candidates[0]))> meshes, taken;
  for (const Candidate& one : candidates) meshes.insert(mesh_key(one));
  const size_t wanted = (goal == PlanGoal::memory ? 10 : 3) * count;  // ordered by their forecasts below
  std::vector<RunForecast> best;
  for (const Candidate& one : candidates) {
    if (best.size() == wanted) break;
    if (meshes.size() > 1 && taken.contains(mesh_key(one))) continue;
    PlannedNodes nodes = on;
    nodes.nodes = one.nodes;
    if (std::optional<RunForecast> forecast = that_fits(with_layout(loaded, one.layout), nodes)) {
      best.push_back(std::move(*forecast));
      taken.insert(mesh_key(one));
    }
  }
  const auto rank = [&](const RunForecast& one) {
    const double seconds = one.time.total();
    return goal == PlanGoal::memory ? std::pair(one.memory(), 0.0)
           : goal == PlanGoal::cost ? std::pair(rounded_cost(seconds, one.on.nodes), seconds)
                                    : std::pair(seconds, 0.0);
  };
  std::ranges::stable_sort(best, [&](const RunForecast& a, const RunForecast& b) { return rank(a) < rank(b); });
  best.resize(std::min(count, best.size()));
  return best;
}

namespace {

constexpr size_t kLeastSteps = 10;
constexpr double kLeastSeconds = 2;

/// This host as a type of node, from the rates that one of its ranks reaches beside the others.
NodeType this_host(double flops, double copied, const RankContext& rank, bool gpus) {
  NodeType type;
  type.name = "this host";
  if (gpus) {                        // rates are those of one GPU
    constexpr double kCopied = 0.9;  // of its bandwidth: pass_shares of trireme_rates()
    type.gpus = rank.local_size();
    type.tflops = flops / 1e12;
    type.product_share = 0.7;  // of one large product: docs/planner.md
    type.memory_gb_per_s = copied / kCopied / 1e9;
    type.link_gb_per_s = type.network_gbit_per_s = 1e9;  // unknown: left out of the plan
    return type;
  }
  const auto ranks = static_cast<double>(rank.local_size());
  type.cores = static_cast<int64_t>(rank.local_size()) * rank.threads;
  type.tflops = flops * ranks / 1e12;
  type.product_share = 0.9;  // of one large product: docs/planner.md
  type.memory_gb_per_s = copied * ranks / 1e9;
  type.memory_share = 1;
  type.network_gbit_per_s = 1e9;  // unknown: left out of the plan
  return type;
}

/// The sizes of steps that differ, on average.
void take_rows(const StepRows& rows, ModelSize& model, StepLayout& layout) {
  const auto micro_batches = std::max<int64_t>(1, std::llround(rows.micro_batches));
  layout.micro_batch = 1;
  layout.global_batch = layout.data * micro_batches;
  model.sequence = std::max<int64_t>(1, std::llround(rows.rows / static_cast<double>(micro_batches)));
  if (rows.rows == 0) return;
  model.attended = rows.squares / rows.rows;
  model.head_rows = rows.counted / rows.rows;
}

}  // namespace

void log_step_plan(const Run& run, const RankContext& rank, Scalars& scalars, Ops& ops) {
  const RankPlan& plan = run.plan.part;
  const Config& config = run.config();
  const RunSpeed& speed = run.speed;
  const bool judged = speed.steps.count() >= kLeastSteps && speed.trained_seconds >= kLeastSeconds;
  if (!scalars.any(judged) || plan.spec.has_states()) return;  // of layers with a state no plan knows the time
  const bool gpus = !ops.device().is_host();
  const double copied = measure_copy_rate(ops, rank.threads);
  if (rank.rank() != 0) return;
  const NodeType host = this_host(speed.peak_flops, copied, rank, gpus);
  const StepRows rows = speed.steps.mean_rows();
  const bool classifies = plan.spec.head == HeadKind::classifier;
  const bool differ = plan.step.varies || plan.step.uneven || classifies;
  StepLayout layout = layout_of_run(config, plan);
  ModelSize model = size_of_model(plan.spec, plan.step.micro_rows / plan.step.micro_sequences);
  if (differ) {
    take_rows(rows, model, layout);
  } else {
    layout.global_batch = plan.mesh.data * plan.step.micro_batches * plan.step.micro_sequences;
  }
  if (classifies) model.head_rows = 0;  // one row of each sequence, and few classes
  if (plan.table && plan.table->flat_count() > 0)
    model.trained = static_cast<double>(plan.table->trained_count()) / static_cast<double>(plan.table->flat_count());
  const MachineRates rates = trireme_rates(host, rank.local_size(), formats_of(config, plan.rank.gpu));
  log::info("{}", compare_with_plan(step_time(model, layout, rates),
                                    {.seconds = differ ? speed.steps.mean_seconds() : speed.steps.seconds(),
                                     .waiting = differ ? speed.steps.mean_waiting() : speed.steps.waiting(),
                                     .others = speed.used_by_others,
                                     .unknown_links = rank.local_size() < rank.size() || (gpus && rank.size() > 1),
                                     .rows = differ ? rows.rows : 0}));
}

}  // namespace trireme
