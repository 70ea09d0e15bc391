#include "train/glue/options.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

/// run_glue's name; glue_flags.cc takes no others.
RateCourse course_of(const std::string& name) {
  if (name == "linear") return RateCourse::linear;
  if (name == "cosine") return RateCourse::cosine;
  if (name == "cosine_with_restarts") return RateCourse::cosine_with_restarts;
  if (name == "polynomial") return RateCourse::polynomial;
  if (name == "inverse_sqrt") return RateCourse::inverse_sqrt;
  return RateCourse::constant;
}

}  // namespace

int64_t interval_of(double steps, int64_t total) {
  if (steps >= 1) return static_cast<int64_t>(steps);
  return std::max<int64_t>(1, static_cast<int64_t>(std::ceil(steps * static_cast<double>(total))));
}

int64_t warmup_of(const GlueOptions& options, int64_t steps) {
  if (options.schedule == "constant") return 0;
  if (options.warmup_steps >= 1) return static_cast<int64_t>(options.warmup_steps);
  const double ratio = options.warmup_steps > 0 ? options.warmup_steps : options.warmup_ratio;
  return static_cast<int64_t>(std::ceil(static_cast<double>(steps) * ratio));
}

Config config_of(const GlueOptions& options, int64_t steps, int64_t global) {
  Config config = options.native.config;
  config.model.init = options.model;
  config.batch.global = global;
  config.batch.per_rank = options.train_batch * options.accumulation;
  config.batch.sequence = options.max_length;
  OptimOptions& optim = config.optim;
  optim.learning_rate = options.learning_rate;
  optim.min_learning_rate = options.schedule == "polynomial" ? options.polynomial_end : 0;
  optim.decay_power = options.polynomial_power;
  optim.restarts = options.restarts;
  optim.timescale = options.timescale;
  optim.schedule = course_of(options.schedule);
  optim.warmup_steps = warmup_of(options, steps);
  optim.decay_steps = steps;
  optim.beta1 = options.beta1;
  optim.beta2 = options.beta2;
  optim.epsilon = options.epsilon;
  optim.weight_decay = options.weight_decay;
  optim.clip = options.clip;
  config.precision.dtype = options.bf16 ? DType::bf16 : DType::f32;
  config.checkpoint.every = options.saving == "steps" ? interval_of(options.save_steps, steps) : 0;
  config.checkpoint.keep = options.save_total_limit;
  config.checkpoint.best = options.load_best;
  config.checkpoint.resume = options.resume.empty() ? "auto" : options.resume;
  config.evaluation.only = !options.train;
  config.log.every = interval_of(options.logging_steps, steps);
  config.run.dir = options.output_dir;
  config.run.steps = steps;
  if (!options.native.given("run.spike-score")) config.run.spike_score = 0;  // the recipe knows no spikes
  config.run.seed = options.seed;
  config.run.overwrite = options.overwrite;
  return config;
}

}  // namespace trireme
