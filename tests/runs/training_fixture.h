#pragma once
// A tiny run: token files made here, a small model, and the weights that a run left.

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "checkpoint/checkpoint_folder.h"
#include "report/run_log.h"
#include "tests/runs/program.h"

namespace trireme {

/// Token files with structure to learn, and a configuration of a model that trains on them in milliseconds per step.
class TrainingFixture : public ::testing::Test {
 protected:
  TrainingFixture() {
    write_tokens("train.bin", 20000, 1);
    write_tokens("val.bin", 4000, 2);
    write_text(path("config.yaml"), R"(model: {layers: 2, heads: 2, width: 32, context: 16, vocabulary: 31}
data: {dir: )" + folder_.path() + R"(}
batch: {global: 12}
optim: {learning_rate: 3e-3, warmup_steps: 5}
comm: {wire: f32, bucket_mb: 0.05}
evaluation: {every: 0, batches: 2}
checkpoint: {every: 0}
launch: {threads: 1}
log: {every: 1, peak_tflops: 1}
run: {steps: 20}
)");
  }

  std::string path(const std::string& name) const { return folder_ / name; }

  /// `train config.yaml --run.dir NAME ...`
  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& flags = {}) const {
    std::vector<std::string> words = {"train", path("config.yaml"), "--run.dir", path(run)};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }

  /// All f32 master weights that the run's newest checkpoint holds, in table order.
  std::vector<float> weights(const std::string& run) const {
    const CheckpointFolder folder = open_checkpoint(path(run));
    const ParameterTable table(folder.facts.spec);
    TrainingState state(table, DType::f32, true);
    load_checkpoint(folder, table, state);
    const auto values = state.weights().values<float>();
    return {values.begin(), values.end()};
  }
  RunCounters progress(const std::string& run) const { return open_checkpoint(path(run)).facts.progress; }

  /// Loss by step from metrics.jsonl; a later record of a step wins.
  std::map<int64_t, double> losses(const std::string& run) const {
    std::map<int64_t, double> out;
    for (const Metrics& metrics : read_run_log(path(run) + "/metrics.jsonl").steps) out[metrics.step] = metrics.loss;
    return out;
  }

 private:
  void write_tokens(const std::string& name, int count, uint32_t seed) const {
    std::ofstream out(path(name), std::ios::binary);
    uint32_t state = seed, previous = 0;
    for (int i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      previous = (state >> 28) < 12 ? (previous * 7 + 3) % 31 : (state >> 16) % 31;  // mostly a rule, sometimes noise
      const char bytes[2] = {static_cast<char>(previous), 0};
      out.write(bytes, 2);
    }
  }
  TemporaryFolder folder_;
};

}  // namespace trireme
