#pragma once
// What a fine-tuning run is asked to do: the native configuration, and what that does not know. cli/train/glue_flags.cc
// reads it from run_glue's arguments.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/load.h"
#include "text/tokenizer.h"

namespace trireme {

/// When something happens during training.
enum class Strategy : uint8_t { no, steps, epoch };
struct Rhythm {
  Strategy strategy = Strategy::steps;
  double steps = 500;  ///< from one time to the next; below 1: a share of all steps
};

/// Labelled rows: of a task of GLUE, whose folder is data.dir, or of the user's own files data.train, data.validation
/// and data.test.
struct RowOptions {
  std::string task;                       ///< empty: files of one's own
  std::vector<std::string> text_columns;  ///< of files of one's own; empty: found
  std::string label_column = "label";
  char csv_separator = 0;  ///< 0: by the file's ending
  std::string encoding = "auto";
  int64_t most_train = 0, most_evaluation = 0, most_prediction = 0;  ///< the first ones; 0: all
  bool pad = false;                                                  ///< to batch.sequence ids
};

struct GlueOptions {
  /// From glue_configuration() on: model, tokenizer, rows, batch of a rank, optimizer, formats, run folder and all that
  /// `trireme train` has, too. What follows from the number of steps is in config_of().
  LoadedConfig loaded;
  TokenizerLoadOptions tokenizer_load;
  RowOptions rows;
  bool evaluate = false, predict = false;
  bool renew_head = false;  ///< a head of other classes is made anew also where nothing is trained
  int64_t evaluation_batch = 8;
  int64_t most_tokens = 0;  ///< of a micro-batch; 0: only its rows are limited
  double epochs = 3;
  int64_t max_steps = -1;     ///< instead of the epochs; -1: epochs
  double warmup_share = 0;    ///< of all steps, where optim.warmup-steps is 0; rounded up
  std::string schedule_name;  ///< transformers' name of optim.schedule, for the model card

  double label_smoothing = 0;                           ///< what of each label all classes share
  Rhythm logging, saving, evaluation{Strategy::no, 0};  ///< evaluation: 0 steps are those of logging
  bool logging_first_step = false;
  std::string best_metric;  ///< empty: the loss
  std::optional<bool> greater_is_better;
  int64_t patience = 0;  ///< evaluations in a row that are not better, after which training ends; 0: it does not
  double patience_threshold = 0;

  const Config& config() const { return loaded.config; }
  bool trains() const { return !config().evaluation.only; }
  bool resumes_a_named_one() const { return config().checkpoint.resume != "auto"; }
};

/// The native configuration with run_glue's defaults.
Config glue_configuration();

/// The options' configuration for a run of so many steps with so many rows in each. What it is stored with.
Config config_of(const GlueOptions& options, int64_t steps, int64_t global);

/// Steps between two events: `steps`, or below 1 that share of `total`, rounded up; at least 1.
int64_t interval_of(double steps, int64_t total);

/// steps of warm-up: optim.warmup-steps, else ceil(steps x share).
int64_t warmup_of(const GlueOptions& options, int64_t steps);

}  // namespace trireme
