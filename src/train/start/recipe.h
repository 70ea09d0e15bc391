#pragma once
// What a job trains, from its start to its end. A fine-tuning task is a class like train/pretraining or
// train/dpo/dpo.cc; CONTRIBUTING.md lists what belongs to one.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/affinity.h"
#include "hub/place.h"
#include "ops/backend.h"
#include "train/plan.h"
#include "train/task.h"

namespace trireme {

class Process;
struct GlueOptions;

/// The ranks of one job, after they have proved to belong together.
struct TrainingJob {
  const RankContext& rank;
  Scalars& scalars;
  MeshShape mesh;  ///< every axis is resolved
  const CorePlan& cores;
  const Backend& backend;
  std::function<std::string()> stop_reason;

  PlannedRank planned() const { return trireme::planned(rank, cores.exchange_cores, backend.device != nullptr); }
};

/// What is known before the ranks have connected.
struct JobOptions {
  const Config& config;
  std::string proof = {};     ///< what must be equal on all ranks, beside the configuration
  bool shares_folder = true;  ///< as RunPlan::shares_folder, as far as it is known
};

/// Where the run begins, and the models and data sets to fetch for that, named instead of a folder.
struct Resolved {
  ResumePlace place;
  hub::Named needs;
};

/// What a task adds to the start of a run: train/start/start.cc calls these in their order, and each gets what the one
/// before made. Functions that take the job, the work or a Scalars are collective.
class Recipe {
 public:
  virtual ~Recipe() = default;
  virtual JobOptions options() const = 0;
  /// Looks at the run folder before this job locks it. Does not change files of another run.
  virtual void look(Scalars&) {}
  /// Checks the options, and finds the snapshot to resume.
  virtual Resolved resolve(const TrainingJob& job) = 0;
  /// Opens model and data, reads what the ranks read together, and checks that every rank has read the same. The
  /// recipe keeps the examples; the plan lacks its memory.
  virtual RunPlan open(const Resolved& start, const TrainingJob& job) = 0;
  /// Loads the weights of a run that resumes nothing. Not collective.
  virtual void make_weights(Run& run) = 0;
  /// The weights are loaded. work and job outlive the task.
  virtual Task begin(Work& work, const TrainingJob& job) = 0;
  /// Does the work. False: a stop was requested.
  virtual bool work(Work& work, Task task, const TrainingJob& job);
  /// The last lines of a training that is done, on rank 0: what to do with the result. Not collective.
  virtual void close(const Run&) const {}
};

/// The start of every job, step by step: the ranks prove that they belong together, watch each other and bind to their
/// cores; rank 0 claims the run folder. Then values, each made of the one before: Resolved (where the run begins) ->
/// RunPlan (model and data are open, by way of Opened; what this rank holds is planned) -> Loaded (weights, session and
/// saver) -> Task (what the loop needs) -> RunEnd. Collective. version: identifies the program; all ranks must run the
/// same one. Returns the exit code: 0 done, 75 stopped by request. Throws Error.
int start(Recipe& recipe, Process& process, std::string_view version);

/// Pre-training: windows of token files, all of the same length, evaluated on fixed windows of the validation data.
std::unique_ptr<Recipe> pretraining(LoadedConfig loaded);
/// Fine-tunes a classifier on labelled rows: trains, evaluates and predicts as the options ask.
std::unique_ptr<Recipe> fine_tuning(GlueOptions options);
/// Trains a language model on pairs of answers, of which one is preferred.
std::unique_ptr<Recipe> preference_tuning(LoadedConfig loaded);
/// As chat_tuning_defaults(), for pairs.
std::vector<std::string> preference_tuning_defaults();

}  // namespace trireme
