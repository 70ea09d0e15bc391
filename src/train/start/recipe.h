#pragma once
// What a job trains, from its start to its end. A fine-tuning task is one file with a class like train/pretraining
// or train/glue/finetune.cc; its command's file in src/cli reads the options, and one line of cli/commands.cc registers
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

/// A task and what comes before and after its loop, in the order in which train/start/start.cc calls it. Functions that
/// take the job or a Scalars are collective; in the others a single rank may throw.
class Recipe : public Task {
 public:
  /// The configuration before the ranks have connected.
  virtual const Config& config() const = 0;
  /// What must be equal on all ranks, beside the configuration.
  virtual std::string proof() const { return {}; }
  /// Whether every rank has to see the run folder, for snapshots. Called before open() and after it, when more is
  /// known.
  virtual bool shares_folder() const { return true; }
  /// Looks at the run folder before this job locks it. Does not change files of another run.
  virtual void look(Scalars&) {}
  /// Checks the options before anything is opened.
  virtual void check() {}
  /// Finds the snapshot to resume.
  virtual ResumePlace find_start(const TrainingJob& job) = 0;
  /// The models and data sets to fetch, named instead of a folder. is_new: nothing is resumed.
  virtual hub::Named needs(bool is_new) const = 0;
  /// Opens model and data and resolves the plan, except its memory; the plan lives as long as the recipe.
  virtual RunPlan& open(const ResumePlace& place, const TrainingJob& job) = 0;
  /// Reads what the ranks read together, and resolves what of the plan follows from it, except its memory.
  virtual void read_data(const TrainingJob&) {}
  /// Checks that every rank has read the same.
  virtual void prove_data(const TrainingJob& job) = 0;
  /// Loads the weights of a run that resumes nothing.
  virtual void make_weights(Run& run) = 0;
  /// The weights are loaded. From now on the loop may ask for batches.
  virtual void begin(Work& work) = 0;
  /// Does the work. False: a stop was requested.
  virtual bool work(Work& work, const TrainingJob& job);
};

}  // namespace trireme
