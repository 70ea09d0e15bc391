#pragma once
// What a job trains, from its start to its end. A fine-tuning task is one file with a class like train/pretraining.cc
// or train/glue/finetune.cc; the file of its command in src/cli reads its options, one line of cli/commands.cc lists
// it.

#include <functional>
#include <string>

#include "base/affinity.h"
#include "hub/place.h"
#include "ops/backend.h"
#include "train/start/run_plan.h"
#include "train/task.h"

namespace trireme {

/// Ranks that have proved to be one job, as a recipe meets them.
struct TrainingJob {
  const RankContext& rank;
  Scalars& scalars;
  MeshShape mesh;  ///< with every axis filled in
  const CorePlan& cores;
  const Backend& backend;
  std::function<std::string()> stop_reason;

  PlannedRank planned() const { return trireme::planned(rank, cores.exchange_cores); }
};

/// What differs in what a start proves and says.
struct StartWords {
  std::string proof;                        ///< what ranks must have in common beside their configuration
  const char* folder_option = "--run.dir";  ///< what names the run folder
  /// What to do where training cannot start from a snapshot.
  const char* other_snapshot = "name an earlier one with --checkpoint.resume (`trireme checkpoint list` shows them)";
};

/// A task and what comes before and after its loop, in the order in which train/start/start.cc asks for it. Calls are
/// collective where they have the job or a Scalars, else any rank may throw alone.
class Recipe : public Task {
 public:
  /// As it is known before the ranks meet.
  virtual const Config& config() const = 0;
  virtual StartWords words() const { return {}; }
  /// At the run folder, before it belongs to this job. Changes nothing that another run has.
  virtual void look(Scalars&) {}
  /// Of the options, before anything is opened.
  virtual void check() {}
  /// What the run resumes.
  virtual ResumePlace find_start(const TrainingJob& job) = 0;
  /// What is named instead of a folder and has to be fetched. is_new: nothing is resumed.
  virtual hub::Named needs(bool is_new) const = 0;
  /// Opens model and data and resolves the plan, all but its memory; it lives as long as the recipe.
  virtual RunPlan& open(const ResumePlace& place, const TrainingJob& job) = 0;
  /// Every rank has read the same.
  virtual void prove_data(const TrainingJob& job) = 0;
  /// Of a run that resumes nothing.
  virtual void make_weights(Run& run) = 0;
  /// The weights are there. From here on the loop may ask for batches.
  virtual void begin(Work& work) = 0;
  /// Does the work. False: a stop was asked for.
  virtual bool work(Work& work, const TrainingJob& job);
};

}  // namespace trireme
