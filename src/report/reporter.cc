#include "report/reporter.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/time.h"
#include "report/console.h"
#include "report/sink.h"

namespace trireme {
namespace {

constexpr double kBarInterval = 0.1;  // seconds: looks smooth, costs a step nothing

struct GuardedSink {
  std::unique_ptr<Sink> sink;
  bool warned = false;
};

MlflowOptions mlflow_options(const ReporterOptions& options) {
  MlflowOptions mlflow{options.mlflow, options.mlflow_experiment, "trireme", ""};
  if (options.run_dir.empty()) return mlflow;
  const std::filesystem::path folder = std::filesystem::absolute(options.run_dir).lexically_normal();
  mlflow.run_name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  mlflow.id_file = options.run_dir + "/mlflow.json";
  return mlflow;
}

}  // namespace

std::optional<SlowestRank> slowest_of(const std::vector<double>& seconds) {
  if (seconds.size() < 2) return {};
  const auto slowest = std::ranges::max_element(seconds);
  return SlowestRank{static_cast<int>(slowest - seconds.begin()), *slowest / median(seconds)};
}

const char* name_of(LossUnit unit) {
  switch (unit) {
    case LossUnit::row:
      return "nats per row";
    case LossUnit::pair:
      return "per pair";
    case LossUnit::squared_error:
      return "squared error";
    default:
      return "nats per token";
  }
}

struct Reporter::Implementation {
  std::vector<GuardedSink> sinks;
  int64_t first_step = 0, steps = 0;
  Clock::time_point started = Clock::now(), drawn = started - std::chrono::hours(1), spoken = started;
  double most_silence = 0;

  /// Whether a line without a record is due; restarts the time.
  bool is_silent() {
    if (most_silence <= 0 || seconds_since(spoken) < most_silence) return false;
    spoken = Clock::now();
    return true;
  }

  template <class Record>
  void each(Record record) {
    spoken = Clock::now();
    for (GuardedSink& guarded : sinks) {
      try {
        record(*guarded.sink);
      } catch (const std::exception& e) {
        if (guarded.warned) continue;
        guarded.warned = true;
        log::warning("{}: training continues without it; later writes are tried without another warning", e.what());
      }
    }
  }
};

Reporter::Reporter(const ReporterOptions& options, int64_t first_step, int64_t steps, const RunFacts& facts) {
  if (!options.is_rank0) return;
  implementation_ = std::make_unique<Implementation>();
  implementation_->first_step = first_step;
  implementation_->steps = steps;
  implementation_->most_silence = options.most_silence;
  auto& sinks = implementation_->sinks;
  const bool neox = options.neox_form && options.columns.empty();
  sinks.push_back({make_console_sink(neox ? StepForm::neox : StepForm::native, options.columns)});
  if (!options.run_dir.empty() && options.jsonl) sinks.push_back({make_jsonl_sink(options.run_dir + "/metrics.jsonl")});
  if (!options.run_dir.empty() && options.tensorboard) {
    sinks.push_back({make_tensorboard_sink(options.run_dir + "/tensorboard")});
  }
  if (options.board) sinks.push_back({make_board_sink(options.board)});
  if (options.board && !options.textfile.empty())
    sinks.push_back({make_textfile_sink(options.board, options.textfile)});
  if (!options.mlflow.empty()) sinks.push_back({make_mlflow_sink(mlflow_options(options))});
  const AttemptStart attempt{first_step, steps, facts, options.unit, options.configuration, options.options};
  implementation_->each([&](Sink& sink) { sink.start(attempt); });
}

Reporter::~Reporter() {
  if (implementation_) log::set_status("");
}

void Reporter::progress(int64_t step, double loss) {
  if (!implementation_) return;
  const bool draws = log::has_status() && seconds_since(implementation_->drawn) >= kBarInterval;
  const bool speaks = implementation_->is_silent() && !log::has_status();
  if (!draws && !speaks) return;
  const int64_t done = step - implementation_->first_step;
  const double seconds_left = done > 0 ? seconds_since(implementation_->started) / static_cast<double>(done) *
                                             static_cast<double>(implementation_->steps - step)
                                       : -1;
  const std::string line = progress_line(step, implementation_->steps, loss, seconds_left);
  if (speaks) return log::info("{}", line);
  implementation_->drawn = Clock::now();
  log::set_status(line);
}

void Reporter::step(const Metrics& metrics) {
  if (implementation_) implementation_->each([&](Sink& sink) { sink.step(metrics); });
}

void Reporter::evaluation(const EvaluationMetrics& metrics) {
  if (implementation_) implementation_->each([&](Sink& sink) { sink.evaluation(metrics); });
}

void Reporter::test(const TestMetrics& metrics) {
  if (implementation_) implementation_->each([&](Sink& sink) { sink.test(metrics); });
}

void Reporter::checkpoint(const CheckpointEvent& event) {
  if (implementation_) implementation_->each([&](Sink& sink) { sink.checkpoint(event); });
}

void Reporter::sample(const SampleText& sample) {
  if (implementation_) implementation_->each([&](Sink& sink) { sink.sample(sample); });
}

void Reporter::finish(std::string_view state, int64_t step) {
  if (!implementation_) return;
  log::set_status("");
  implementation_->each([&](Sink& sink) { sink.finish(state, step); });
}

}  // namespace trireme
