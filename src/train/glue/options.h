#pragma once
// What a fine-tuning run is asked to do: run_glue's arguments, with its defaults.

#include <cstdint>
#include <string>

#include "config/load.h"
#include "text/tokenizer.h"

namespace trireme {

struct GlueOptions {
  std::string model;      ///< folder
  std::string tokenizer;  ///< folder or file; empty: the model's
  TokenizerLoadOptions tokenizer_load;
  std::string task;  ///< empty: files of one's own
  std::string data_dir, train_file, validation_file, test_file;
  std::string output_dir;
  bool overwrite = false;
  std::string resume;  ///< run or step folder; empty: what output_dir holds
  bool train = false, evaluate = false, predict = false;

  int64_t max_length = 128;
  bool pad = false;                                                        ///< to max_length
  int64_t most_train_rows = 0, most_eval_rows = 0, most_predict_rows = 0;  ///< 0: all
  int64_t train_batch = 8, eval_batch = 8, accumulation = 1;               ///< rows per rank
  int64_t most_tokens = 0;  ///< of a micro-batch; 0: only its rows are limited
  double epochs = 3;
  int64_t max_steps = -1;

  double learning_rate = 5e-5, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, clip = 1.0;
  std::string schedule = "linear";  ///< linear, cosine, constant, constant_with_warmup
  double warmup_ratio = 0;
  double warmup_steps = 0;  ///< below 1: a ratio too
  int64_t seed = 42;
  bool bf16 = false;

  std::string logging = "steps", saving = "steps", evaluation = "no";  ///< no, steps, epoch
  int64_t logging_steps = 500, save_steps = 500, eval_steps = 0;       ///< eval_steps 0: logging_steps
  bool logging_first_step = false;
  int64_t save_total_limit = 0;  ///< 0: all

  LoadedConfig native;  ///< options of groups comm, launch, log, model and run that stay the user's
};

/// Trireme's own configuration of the run; `steps`, `global` as planned. What it is stored and started with.
Config config_of(const GlueOptions& options, int64_t steps, int64_t global);

/// steps of warm-up: warmup_steps, else ceil(steps x ratio).
int64_t warmup_of(const GlueOptions& options, int64_t steps);

}  // namespace trireme
