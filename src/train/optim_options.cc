#include "train/optim_options.h"

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
          .form = o.schedule_form};
}

OptimizerOptions optimizer_options(const Config& config, bool one_host, std::vector<int> exchange_cores) {
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
  options.one_host = one_host;
  options.exchange_cores = std::move(exchange_cores);
  return options;
}

}  // namespace trireme
