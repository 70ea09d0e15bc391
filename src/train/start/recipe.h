#pragma once
// What a job trains, from its start to its end. A fine-tuning task is one file with a class like train/pretraining or
// train/glue/finetune.cc; its command's file in src/cli reads the options, and one line of cli/commands.cc registers
// it.

#include <functional>
#include <string>

#include "base/affinity.h"
#include "hub/place.h"
#include "ops/backend.h"
#include "train/plan.h"
#include "train/task.h"

namespace trireme {

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
};

}  // namespace trireme
