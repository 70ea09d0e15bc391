#pragma once
// The options of a fine-tuning run: the native configuration and what only fine-tuning has. cli/train/glue_flags.cc
// reads them from run_glue's arguments.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "config/load.h"
#include "text/tokenizer.h"

namespace trireme {

/// When something happens during training.
/// best: a checkpoint for each evaluation that is the best so far.
enum class Strategy : uint8_t { no, steps, epoch, best };

template <>
struct Names<Strategy> {
  static constexpr Named<Strategy> kAll[] = {
      {"no", Strategy::no}, {"steps", Strategy::steps}, {"epoch", Strategy::epoch}, {"best", Strategy::best}};
};

struct EventSchedule {
  Strategy strategy = Strategy::steps;
  double steps = 500;  ///< between two events; below 1: a share of all steps
};

/// Labelled rows: of a GLUE task in the folder data.dir, or of the user's own files data.train, data.validation and
/// data.test.
struct RowOptions {
  std::string task;                       ///< empty: the user's own files
  std::vector<std::string> text_columns;  ///< of the user's own files; empty: detected
  std::string label_column = "label";
  char csv_separator = 0;  ///< 0: by the file name's extension
  std::string encoding = "auto";
  int64_t most_train = 0, most_evaluation = 0, most_prediction = 0;  ///< only the first so many; 0: all
  bool pad = false;                                                  ///< to batch.sequence ids
};

struct GlueOptions {
  /// Begins as glue_configuration(): model, tokenizer, rows, batch of a rank, optimizer, formats, run folder and
  /// everything else that `trireme train` has. config_of() adds what follows from the number of steps.
  LoadedConfig loaded;
  TokenizerLoadOptions tokenizer_load;
  RowOptions rows;
  bool evaluate = false, predict = false;
  bool renew_head = false;  ///< initialize a head of other classes even without training
  int64_t evaluation_batch = 8;
  int64_t most_tokens = 0;  ///< per micro-batch; 0: only the rows are limited
  double epochs = 3;
  int64_t max_steps = -1;     ///< instead of the epochs; -1: epochs
  double warmup_share = 0;    ///< of all steps, if optim.warmup-steps is 0; rounded up
  std::string schedule_name;  ///< transformers' name of optim.schedule, for the model card

  double label_smoothing = 0;                                  ///< share of each label that all classes split
  EventSchedule logging, saving, evaluation{Strategy::no, 0};  ///< evaluation: 0 steps: as logging
  bool logging_first_step = false;
  std::string best_metric;  ///< empty: the loss
  std::optional<bool> greater_is_better;
  int64_t patience = 0;  ///< evaluations in a row that are not better, after which training ends; 0: it does not
  double patience_threshold = 0;

  const Config& config() const { return loaded.config; }
  bool trains() const { return !config().evaluation.only; }
  bool resumes_named_checkpoint() const { return config().checkpoint.resume != "auto"; }
};

/// The native configuration with run_glue's defaults.
Config glue_configuration();

/// The configuration for a run of `steps` steps of `global` rows each, as it is stored in checkpoints.
Config config_of(const GlueOptions& options, int64_t steps, int64_t global);

/// Steps between two events: `steps`, or below 1 that share of `total`, rounded up; at least 1.
int64_t interval_of(double steps, int64_t total);

/// Whether no rank has the whole trained weights.
bool shards_model(const Config& config);

/// Whether a training of so many steps writes snapshots, so that all ranks must see its folder. False: only rank 0
/// writes, and at the end.
bool keeps_snapshots(const GlueOptions& options, int64_t steps);

/// Warm-up steps: optim.warmup-steps, else ceil(steps x share).
int64_t warmup_of(const GlueOptions& options, int64_t steps);

}  // namespace trireme
