#include "train/glue/options.h"

#include <algorithm>
#include <cmath>

namespace trireme {

int64_t interval_of(double steps, int64_t total) {
  if (steps >= 1) return static_cast<int64_t>(steps);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(steps * static_cast<double>(total))));
}

int64_t warmup_of(const GlueOptions& options, int64_t steps) {
  if (options.config().optim.warmup_steps > 0) return options.config().optim.warmup_steps;
  return static_cast<int64_t>(std::ceil(static_cast<double>(steps) * options.warmup_share));
}

bool shards_model(const Config& config) {
  const ShardChoice shard = config.optim.shard;
  return config.mesh.tensor > 1 || shard == ShardChoice::parameters ||
         (config.precision.dtype != DType::f32 && shard != ShardChoice::none);
}

bool keeps_snapshots(const GlueOptions& options, int64_t steps) {
  if (!options.trains()) return false;
  if (shards_model(options.config()) || options.config().checkpoint.best) return true;
  const EventSchedule& saving = options.saving;
  return saving.strategy == Strategy::epoch || saving.strategy == Strategy::best ||
         (saving.strategy == Strategy::steps && interval_of(saving.steps, steps) <= steps);
}

Config glue_configuration() {
  Config config;
  config.data.train = config.data.validation = "";
  config.batch.micro = 8;
  config.batch.accumulation = 1;
  config.batch.sequence = 128;
  config.optim.learning_rate = 5e-5;
  config.optim.min_learning_rate = 0;
  config.optim.schedule = RateCourse::linear;
  config.optim.beta2 = 0.999;
  config.optim.weight_decay = 0;
  config.checkpoint.keep = 0;
  config.checkpoint.best = false;
  config.evaluation.only = true;
  config.run.dir = "";
  config.run.seed = 42;
  config.run.spike_score = 0;  // the recipe does not skip spikes
  return config;
}

Config config_of(const GlueOptions& options, int64_t steps, int64_t global) {
  Config config = options.config();
  config.batch.global = global;
  config.batch.per_rank = config.batch.micro * config.batch.accumulation;
  config.batch.accumulation = 0;  // follows from the options above
  config.optim.warmup_steps = warmup_of(options, steps);
  config.optim.decay_steps = steps;
  config.checkpoint.every = options.saving.strategy == Strategy::steps ? interval_of(options.saving.steps, steps) : 0;
  config.log.every = interval_of(options.logging.steps, steps);
  config.run.steps = steps;
  return config;
}

}  // namespace trireme
