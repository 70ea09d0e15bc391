#pragma once
// A task of the training loop that writes down what the loop does with it.

#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <map>
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
class NotedTask : public Task {
 public:
  explicit NotedTask(const BatchShape& batch) : batch_(batch), windows_(tokens_, 3), batches_(windows_, batch) {
    const std::string path = folder_ / "data";
    std::ofstream(path) << "some bytes that the loop watches";
    files_ = {{path, 32, "0"}};
  }

  StepBatches& batches() override { return batches_; }
  uint64_t tokens(uint64_t samples) const override { return samples * static_cast<uint64_t>(batch_.sequence); }
  StepCost step_cost() const override { return {.tokens = 1, .flops = 1, .samples = 1}; }
  const std::vector<DataFileFact>& mapped_files() const override { return files_; }
  RunFacts facts(const Work&, const PeakRate&) const override { return {}; }
  bool evaluates_first() const override { return first; }
  bool evaluates_last() const override { return last; }
  bool saves_first() const override { return saves_first_too; }
  bool saves_last() const override { return saves; }
  Due due(const RunCounters& progress) const override {
    const auto on = [&](int64_t every) { return every > 0 && progress.step % every == 0; };
    return {.report = false, .evaluation = on(evaluate_every), .snapshot = on(save_every)};
  }
  bool evaluate(Work& work) override {
    notes.push_back(fmt::format("evaluate {}", work.run.progress.step));
    const auto loss = losses.find(work.run.progress.step);
    if (loss != losses.end() && loss->second < work.run.progress.best_loss) {
      work.run.progress.best_loss = loss->second;
      work.saver->mark_best();
    }
    return !stop_in_evaluation;
  }
  bool test(Work& work) override {
    notes.push_back(fmt::format("test {}", work.run.progress.step));
    return true;
  }
  bool is_finished() const override { return steps_done >= finish_after; }
  void step_done(const StepResult& result) override {
    ++steps_done;
    step_losses.push_back(result.loss);
    if (result.skipped) notes.push_back("skipped");
  }

  bool first = false, last = false, saves = true, saves_first_too = false, stop_in_evaluation = false;
  int64_t evaluate_every = 0, save_every = 0, finish_after = std::numeric_limits<int64_t>::max(), steps_done = 0;
  std::map<int64_t, double> losses;  ///< of evaluations after so many steps
  std::vector<double> step_losses;
  std::vector<std::string> notes;

 private:
  TemporaryFolder folder_;
  std::vector<DataFileFact> files_;
  BatchShape batch_;
  std::vector<uint16_t> tokens_ = run_tokens();
  WindowSource windows_;
  SampleBatches batches_;
};

}  // namespace trireme
