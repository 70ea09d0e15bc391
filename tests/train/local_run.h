#pragma once
// A run of a tiny model on a rank that is a thread: plan, state, session and saver as a start makes them, without a
// process, a claim on the folder or files of data.

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_folder.h"
#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/saver.h"
#include "train/task.h"

namespace trireme {

constexpr int64_t kRunBatch = 4, kRunSequence = 8;

/// Small, quiet and without measurements.
inline Config run_config(const std::string& run_dir) {
  Config config;
  config.run.dir = run_dir;
  config.run.steps = 6;
  config.run.hash_every = 1000;
  config.optim.learning_rate = 1e-2;
  config.optim.warmup_steps = 0;
  config.checkpoint.every = 2;
  config.evaluation.every = 0;
  config.log.peak_tflops = 1;
  config.log.seconds = 0;
  return config;
}

inline BatchShape run_batch(const RankContext& rank, int64_t micro_batches = 1) {
  return {.global = kRunBatch,
          .micro_batches = micro_batches,
          .sequence = kRunSequence,
          .ranks = rank.size(),
          .rank = rank.rank()};
}

inline RunPlan run_plan(const RankContext& rank, const Config& config, std::optional<CheckpointFolder> resume = {}) {
  RunPlan plan;
  plan.loaded.config = config;
  plan.resume = std::move(resume);
  plan.part = plan_rank({.spec = tiny_spec(), .mesh = {.data = rank.size()}}, config, step_size(run_batch(rank)),
                        planned(rank));
  return plan;
}

/// New weights, or those of `resume`.
struct LocalRun {
  LocalRun(
      const RankContext& rank, const Config& config, std::optional<CheckpointFolder> resume = {},
      std::function<void()> check_claim = [] {}, Backend of = make_backend())
      : backend(std::move(of)),
        plan(run_plan(rank, config, std::move(resume))),
        run(plan, false),
        made(Session::make(session_options(plan.part), run.table, run.state, *backend.ops, rank)),
        session(*made) {
    initialize(run.state, run.table, 5);
    if (plan.resume) {
      load_checkpoint(*plan.resume, run.table, run.state);
      run.resume(plan.resume->facts.progress);
    }
    if (plan.part.trains) saver.emplace(run, session, std::move(check_claim));
  }

  Work work() { return {run, session, saver ? &*saver : nullptr}; }
  /// Every weight takes this value.
  void set_weights(float value) {
    for (float& weight : run.state.weights().values<float>()) weight = value;
  }
  std::vector<float> weights() const {
    const auto values = run.state.weights().values<float>();
    return {values.begin(), values.end()};
  }

  Backend backend;
  RunPlan plan;
  Run run;
  std::unique_ptr<Session> made;
  Session& session;
  std::optional<Saver> saver;
};

}  // namespace trireme
