#pragma once
// A task of the training loop that writes down what the loop does with it.

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"
#include "train/task.h"

namespace trireme {

inline std::vector<uint16_t> run_tokens() {
  std::vector<uint16_t> tokens(500);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * i % 13);
  return tokens;
}

/// Windows of some tokens; what the loop does with it is written down.
class NotedTask {
 public:
  explicit NotedTask(const BatchShape& batch) : batch_(batch), windows_(tokens_, 3) {
    const std::string path = folder_ / "data";
    std::ofstream(path) << "some bytes that the loop watches";
    files_ = {{path, 32, "0"}};
  }

  /// As the loop takes it; this outlives the loop.
  operator Task() {  // NOLINT(google-explicit-constructor): a test gives it to a trainer as it is
    Task task;
    task.batches = std::make_unique<SampleBatches>(windows_, batch_);
    task.cost = {.tokens = 1, .flops = 1, .samples = 1};
    task.tokens = [this](uint64_t samples) { return samples * static_cast<uint64_t>(batch_.sequence); };
    task.mapped_files = files_;
    task.facts = [](const PeakRate&) { return RunFacts(); };
    task.evaluates_first = first;
    task.evaluates_last = last;
    task.saves_first = saves_first_too;
    task.saves_last = saves;
    task.due = [this](const RunCounters& progress) {
      const auto on = [&](int64_t every) { return every > 0 && progress.step % every == 0; };
      return Due{.report = false, .evaluation = on(evaluate_every), .snapshot = on(save_every)};
    };
    task.evaluate = [this](Work& work) { return evaluate(work); };
    task.test = [this](Work& work) {
      notes.push_back(fmt::format("test {}", work.run.progress.step));
      return true;
    };
    task.is_finished = [this] { return steps_done >= finish_after; };
    task.step_done = [this](const StepResult& result) {
      ++steps_done;
      step_losses.push_back(result.loss);
      if (result.skipped) notes.push_back("skipped");
    };
    return task;
  }

  bool first = false, last = false, saves = true, saves_first_too = false, stop_in_evaluation = false;
  int64_t evaluate_every = 0, save_every = 0, finish_after = std::numeric_limits<int64_t>::max(), steps_done = 0;
  std::map<int64_t, double> losses;  ///< of evaluations after so many steps
  std::vector<double> step_losses;
  std::vector<std::string> notes;

 private:
  bool evaluate(Work& work) {
    notes.push_back(fmt::format("evaluate {}", work.run.progress.step));
    const auto loss = losses.find(work.run.progress.step);
    if (loss != losses.end() && loss->second < work.run.progress.best_loss) {
      work.run.progress.best_loss = loss->second;
      work.saver->mark_best();
    }
    return !stop_in_evaluation;
  }

  TemporaryFolder folder_;
  std::vector<DataFileFact> files_;
  BatchShape batch_;
  std::vector<uint16_t> tokens_ = run_tokens();
  WindowSource windows_;
};

}  // namespace trireme
