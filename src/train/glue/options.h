#pragma once
// What a fine-tuning run is asked to do: run_glue's arguments, with its defaults.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "text/tokenizer.h"

namespace trireme {

struct GlueOptions {
  std::string model;      ///< folder
  std::string tokenizer;  ///< folder or file; empty: the model's
  TokenizerLoadOptions tokenizer_load;
  std::string task;  ///< empty: files of one's own
  std::string data_dir, train_file, validation_file, test_file;
  std::vector<std::string> text_columns;  ///< of files of one's own; empty: found
  std::string label_column = "label";
  char csv_separator = 0;  ///< 0: by the file's ending
  std::string encoding = "auto";
  std::string output_dir;
  bool overwrite = false;
  std::string resume;  ///< run or step folder; empty: what output_dir holds
  bool train = false, evaluate = false, predict = false;
  bool renew_head = false;  ///< a head of other classes is made anew also where nothing is trained

  int64_t max_length = 128;
  bool pad = false;                                                        ///< to max_length
  int64_t most_train_rows = 0, most_eval_rows = 0, most_predict_rows = 0;  ///< 0: all
  int64_t train_batch = 8, eval_batch = 8, accumulation = 1;               ///< rows per rank
  int64_t most_tokens = 0;  ///< of a micro-batch; 0: only its rows are limited
  double epochs = 3;
  int64_t max_steps = -1;

  double learning_rate = 5e-5, weight_decay = 0, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, clip = 1.0;
  std::string schedule = "linear";                                                  ///< transformers' name
  double polynomial_end = 1e-7, polynomial_power = 1, restarts = 1, timescale = 0;  ///< lr_scheduler_kwargs
  double warmup_ratio = 0;
  double warmup_steps = 0;     ///< below 1: a ratio too
  double label_smoothing = 0;  ///< what of each label all classes share
  int64_t seed = 42;
  bool bf16 = false;

  std::string logging = "steps", saving = "steps", evaluation = "no";  ///< no, steps, epoch
  /// Below 1: a share of all steps. eval_steps 0: logging_steps.
  double logging_steps = 500, save_steps = 500, eval_steps = 0;
  bool logging_first_step = false;
  int64_t save_total_limit = 0;  ///< 0: all
  bool load_best = false;        ///< the model at the end is that of the best evaluation
  std::string best_metric;       ///< empty: the loss
  std::optional<bool> greater_is_better;
  int64_t patience = 0;  ///< evaluations in a row that are not better, after which training ends; 0: it does not
  double patience_threshold = 0;

  LoadedConfig native;  ///< options of groups comm, launch, log, model and run that stay the user's
};

/// Trireme's own configuration of the run; `steps`, `global` as planned. What it is stored and started with.
Config config_of(const GlueOptions& options, int64_t steps, int64_t global);

/// Steps between two events: `steps`, or below 1 that share of `total`, rounded up; at least 1.
int64_t interval_of(double steps, int64_t total);

/// steps of warm-up: warmup_steps, else ceil(steps x ratio).
int64_t warmup_of(const GlueOptions& options, int64_t steps);

}  // namespace trireme
