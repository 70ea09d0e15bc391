#pragma once
// Reports a run while it trains: an aligned console line per interval, RUN/metrics.jsonl, TensorBoard event files in
// RUN/tensorboard, and on a terminal a progress bar with the remaining time. A sink that cannot be written (disk full,
// folder gone, terminal closed) causes one warning, and later records are tried again; nothing here throws or stops
// training.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/choices.h"
#include "report/metrics.h"

namespace trireme {

class RunBoard;

struct ReporterOptions {
  std::string run_dir;  ///< empty: console only
  bool jsonl = true;
  bool tensorboard = true;
  bool is_rank0 = true;    ///< on other ranks every call does nothing
  bool neox_form = false;  ///< the console's steps in GPT-NeoX's format
  LossUnit unit = LossUnit::token;
  double most_silence = 0;               ///< seconds after which progress() writes a line; 0: never
  std::shared_ptr<RunBoard> board = {};  ///< gets the records, too; may be empty
  std::string textfile = {};             ///< the board's file (make_textfile_sink); empty: none
  std::string mlflow = {};               ///< URL of a tracking server (make_mlflow_sink); empty: none
  std::string mlflow_experiment = {};    ///< its experiment
  std::string configuration = {};        ///< every option of the run as JSON, for the records; empty: not recorded
  OptionFacts options = {};              ///< AttemptStart::options
  std::vector<LogColumn> columns = {};   ///< of the console's steps, also instead of NeoX's format; empty: the usual
};

class Reporter {
 public:
  /// Starts the report of an attempt that begins after `first_step` steps (0: a new run) and ends at `steps`. Appends
  /// to the files of earlier attempts: their records of later steps are superseded, and readers drop them.
  Reporter(const ReporterOptions& options, int64_t first_step, int64_t steps, const RunFacts& facts);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  /// Moves the progress bar, at most ten times per second, or writes a line after the options' most_silence without
  /// output; call it every step. `loss` is shown if finite.
  void progress(int64_t step, double loss);
  void step(const Metrics& metrics);
  void evaluation(const EvaluationMetrics& metrics);
  void test(const TestMetrics& metrics);
  void checkpoint(const CheckpointEvent& event);
  void sample(const SampleText& sample);
  /// Last record of the attempt; `state` as in status.json (done, stopped, failed). Removes the bar, flushes the files.
  void finish(std::string_view state, int64_t step);

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;  // empty on ranks other than 0
};

}  // namespace trireme
