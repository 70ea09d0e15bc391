#include "train/plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "checkpoint/peft/targets.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "model/mesh_layout.h"
#include "model/pipeline_order.h"
#include "model/stage.h"
#include "tensor/device_network.h"
#include "train/stage_links.h"

namespace trireme {
namespace {

ModelShape shape_of(const RankPlan& plan, const Config& config, int rank) {
  const MeshShape& mesh = plan.mesh;
  const auto order = pipeline_order(place_of(mesh, rank).pipeline, mesh.pipeline, mesh.chunks, plan.step.micro_batches);
  return {.rows = plan.step.micro_rows,
          .training = plan.trains,
          .head_rows = 0,
          .accumulates = (plan.step.micro_batches > 1 || plan.step.varies) &&
                         !exchanges_every_micro_batch(config.optim.shard, mesh.data),
          .recompute = config.model.recompute,
          .chunk_slots = plan.trains ? slots_of_chunks(order, mesh.chunks) : std::vector<int64_t>(),
          .sequence_parallel = config.mesh.sequence,
          .scored_sequences = plan.step.scored};
}

/// The part of the embedding's sum of a tied matrix that steps never touch: each token of the data ranks touches at
/// most one row, and the ends of a row share pages with its neighbours. A GPU's memory is there before it is touched.
size_t untouched_bytes(const RankPlan& plan, const Ops& ops) {
  constexpr int64_t kPage = 4096;
  const ParameterTable& table = *plan.table;
  const int64_t width = plan.spec.token_width(), rows = (table.gradient_count() - table.trained_count()) / width;
  if (!ops.device().is_host() || !plan.trains || exchanges_every_micro_batch(plan.optimizer->shard, plan.mesh.data) ||
      plan.shape.rows >= rows / Ops::kSparseTable)
    return 0;
  const int64_t row_bytes = width * static_cast<int64_t>(size_of(stat_type(plan.dtype)));
  const int64_t touched = plan.step.step_rows * plan.mesh.data * (row_bytes + kPage);
  return static_cast<size_t>(std::max<int64_t>(rows * row_bytes - touched, 0));
}

/// Ranks that this one's GPU is connected with, once for each group.
int connected_peers(const RankPlan& plan) {
  const MeshShape& mesh = plan.mesh;
  const MeshPlace place = place_of(mesh, plan.rank.rank);
  int peers = static_cast<int>(mesh.tensor) - 1;
  const bool both_sides = mesh.chunks > 1 || (place.pipeline > 0 && place.pipeline + 1 < mesh.pipeline);
  if (mesh.pipeline > 1) peers += both_sides ? 4 : 2;  // one for each direction
  return plan.trains ? peers + connected_peers(*plan.table, *plan.optimizer, static_cast<int>(mesh.data), place.data)
                     : peers;
}

}  // namespace

Trained trained_of(const Config& config, const Spec& spec) {
  std::string only = config.train.only;
  if (!spec.adapters.empty()) {
    require(only.empty(), ErrorKind::config,
            "train.only is \"{}\", but a run with lora.rank trains its adapters only; name further modules with "
            "lora.modules-to-save",
            only);
    only = trained_beside_adapters(spec, config.lora.modules_to_save);
  }
  Trained trained(only, config.train.freeze);
  if (trained.all()) return trained;
  const ParameterTable whole(spec);
  std::vector<std::string> names;
  for (const Parameter& parameter : whole.all()) names.push_back(parameter.name);
  trained.check(names);
  return trained;
}

std::string describe_trained(const ParameterTable& whole) {
  const auto tensors = std::ranges::count_if(whole.all(), [](const Parameter& p) { return p.trained(); });
  return fmt::format("{:.2f}M of {:.2f}M parameters, in {} of {} tensors",
                     static_cast<double>(whole.total_trained()) / 1e6, static_cast<double>(whole.total()) / 1e6,
                     tensors, whole.all().size());
}

PlannedRank planned(const RankContext& rank, std::vector<int> exchange_cores, bool gpu) {
  return {rank.rank(), rank.threads, rank.hosts, std::move(exchange_cores), gpu};
}

StepSize step_size(const BatchShape& batch) {
  const int64_t micro = batch.largest_micro();
  return {.micro_batches = batch.micro_batches,
          .micro_sequences = micro,
          .micro_rows = micro * batch.sequence,
          .step_rows = batch.micro_batches * micro * batch.sequence};
}

RankPlan plan_rank(const PlannedModel& model, const Config& config, const StepSize& step, const PlannedRank& rank) {
  RankPlan plan;
  plan.spec = model.spec;
  plan.mesh = model.mesh;
  plan.init_scheme = model.init_scheme;
  plan.rank = rank;
  plan.dtype = config.precision.dtype;
  plan.trains = !config.evaluation.only;
  plan.step = step;
  plan.trained = trained_of(config, plan.spec);
  if (plan.mesh.tensor > 1 && plan.spec.adapter_dropout > 0) {
    for (const Adapter& adapter : adapters_of(plan.spec))
      require(!adapter.linear.ends_with(".out"), ErrorKind::config,
              "lora.dropout is {}, but mesh.tensor {} cuts the inputs of {}, whose dropout would depend on the layout; "
              "set lora.dropout 0, leave this linear out of lora.targets, or use mesh.tensor 1",
              plan.spec.adapter_dropout, plan.mesh.tensor, adapter.linear);
  }
  require(plan.spec.adapter_dropout == 0 || !adapter_sizes(plan.spec, 1).magnitudes, ErrorKind::config,
          "lora.dropout is {}, but adapters with magnitudes (DoRA) have no dropout here; set lora.dropout 0",
          plan.spec.adapter_dropout);
  plan.table.emplace(plan.spec, plan.init_scheme, layout_of(plan.spec, plan.mesh, rank.rank), plan.trained);
  plan.shape = with_trained(shape_of(plan, config, rank.rank), plan.spec, plan.trained);
  plan.optimizer = optimizer_options(config, plan.mesh, rank.rank, rank.hosts, rank.gpu, rank.exchange_cores);
  // An evaluation has neither gradients nor moments to share.
  const bool shares = plan.trains || config.optim.shard == ShardChoice::parameters;
  plan.kept = shares ? kept_states(*plan.table, *plan.optimizer, static_cast<int>(plan.mesh.data),
                                   place_of(plan.mesh, rank.rank).data)
                     : KeptState();
  return plan;
}

SessionOptions session_options(const RankPlan& plan) {
  return {.spec = plan.spec,
          .dtype = plan.dtype,
          .shape = plan.shape,
          .mesh = plan.mesh,
          .optimizer = plan.optimizer,
          .exchange_cores = plan.rank.exchange_cores};
}

MemoryPlan memory_of(const RankPlan& plan, const Ops& ops) {
  const ParameterTable& table = *plan.table;
  const StageBytes stage = stage_bytes(plan.spec, plan.dtype, plan.shape, ops, plan.rank.threads, table.layout());
  MemoryPlan memory;
  memory.state = TrainingState::bytes_for(table, plan.dtype, plan.trains, plan.kept) - untouched_bytes(plan, ops);
  memory.activations = stage.activations;
  memory.scratch = stage.scratch;
  memory.exchange =
      stage.tensor + StageLinks::bytes_for(static_cast<int>(plan.mesh.pipeline), plan.dtype,
                                           plan.shape.own_rows(table.layout().tensor_size), plan.spec.width);
  if (plan.rank.gpu) memory.nccl = static_cast<size_t>(connected_peers(plan)) * kLinkBytes;
  if (!plan.trains) return memory;
  memory.exchange += exchange_bytes(table, *plan.optimizer, static_cast<int>(plan.mesh.data));
  std::vector<Layout> layouts;
  for (int r = 0; r < plan.mesh.data * plan.mesh.tensor * plan.mesh.pipeline; ++r)
    layouts.push_back(layout_of(plan.spec, plan.mesh, r));
  memory.snapshot = CheckpointWriter::snapshot_bytes(table.whole(), layouts, plan.rank.rank, true);
  return memory;
}

RateSchedule schedule_of(const Config& config) {
  const OptimOptions& o = config.optim;
  const int64_t decay = o.decay_steps > 0 ? o.decay_steps : config.run.steps;
  const double warmup =
      o.warmup_fraction > 0 ? o.warmup_fraction * static_cast<double>(decay) : static_cast<double>(o.warmup_steps);
  return {.course = o.schedule,
          .peak = o.learning_rate,
          .minimum = o.min_learning_rate,
          .warmup_steps = warmup,
          .decay_steps = decay,
          .form = o.schedule_form,
          .power = o.decay_power,
          .restarts = o.restarts,
          .timescale = o.timescale,
          .decay_length = o.decay_length,
          .decay_shape = o.decay_shape};
}

std::optional<LossScaleOptions> loss_scale_options(const PrecisionOptions& precision) {
  if (precision.dtype != DType::f16) return std::nullopt;
  const bool metaseq = precision.loss_scale_rule == LossScaleRule::metaseq;
  const auto or_rules = [&](auto given, auto deepspeeds, auto metaseqs) {
    return given > 0 ? given : metaseq ? metaseqs : deepspeeds;
  };
  return LossScaleOptions{.rule = precision.loss_scale_rule,
                          .fixed = precision.loss_scale,
                          .initial = or_rules(precision.loss_scale_initial, 65536.0, 4.0),
                          .window = or_rules(precision.loss_scale_window, int64_t{1000}, int64_t{256}),
                          .hysteresis = precision.loss_scale_hysteresis,
                          .refills_always = precision.loss_scale_refill,
                          .minimum = or_rules(precision.loss_scale_min, 1.0, 0x1p-5),
                          .most_overflows = precision.max_overflows};
}

ReduceOrder reduce_order(const Config& config, const MeshShape& mesh, const HostMap& hosts, bool gpus) {
  if (config.comm.reduce != ReduceOrder::automatic) return config.comm.reduce;
  if (!gpus || hosts.hosts() <= 1) return ReduceOrder::flat;
  for (int rank = 0; rank < hosts.ranks(); ++rank) {
    if (place_of(mesh, rank).data != 0) continue;
    const HostMap data = hosts.of(replicas_of(mesh, rank));
    if (data.hosts() <= 1 || data.ranks_per_host() <= 1) return ReduceOrder::flat;
  }
  return ReduceOrder::hosts;
}

OptimizerOptions optimizer_options(const Config& config, const MeshShape& mesh, int rank, const HostMap& hosts,
                                   bool gpus, std::vector<int> exchange_cores) {
  const OptimOptions& o = config.optim;
  OptimizerOptions options;
  options.adamw.beta1 = static_cast<float>(o.beta1);
  options.adamw.beta2 = static_cast<float>(o.beta2);
  options.adamw.epsilon = static_cast<float>(o.epsilon);
  options.adamw.weight_decay = static_cast<float>(o.weight_decay);
  options.decay_all = o.decay_all;
  options.clip = o.clip;
  options.shard = o.shard;
  options.wire = config.comm.wire;
  options.bucket_bytes = static_cast<size_t>(config.comm.bucket_mb * 1e6);
  options.devices = gpus;
  options.one_host = hosts.hosts() == 1 && !gpus;
  const ReduceOrder order = reduce_order(config, mesh, hosts, gpus);
  if (order == ReduceOrder::hosts) options.hosts = hosts.of(replicas_of(mesh, rank));
  options.by_library = order == ReduceOrder::nccl;
  options.shard_group = o.shard_group;
  options.exchange_cores = std::move(exchange_cores);
  return options;
}

void require_hosts(const Config& config, const MeshShape& mesh, const HostMap& hosts) {
  if (config.comm.reduce != ReduceOrder::hosts) return;
  for (int rank = 0; rank < hosts.ranks(); ++rank) {
    if (place_of(mesh, rank).data != 0) continue;
    const HostMap data = hosts.of(replicas_of(mesh, rank));
    std::vector<size_t> counts;
    for (int host = 0; host < data.hosts(); ++host) counts.push_back(data.ranks_on(host).size());
    require(data.ranks_per_host() > 0, ErrorKind::config,
            "comm.reduce is hosts, which needs the same number of data ranks on every host, but {} hosts have {} of "
            "the {} replicas of rank {}; start the same number of ranks on every host, or set --comm.reduce flat",
            data.hosts(), fmt::join(counts, ", "), data.ranks(), rank);
    require(config.optim.shard_group != ShardGroup::host || data.ranks_per_host() > 1, ErrorKind::config,
            "optim.shard-group is host, but every host has only one data rank; start more ranks per host, or set "
            "--optim.shard-group all");
  }
}

}  // namespace trireme
