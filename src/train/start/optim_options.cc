#include "train/start/optim_options.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace trireme {

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
