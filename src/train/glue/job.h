#pragma once
// The plan and the examples of a fine-tuning run, made from its options before anything large is allocated.

#include <string>
#include <string_view>

#include "comm/scalars.h"
#include "train/glue/data.h"
#include "train/glue/options.h"
#include "train/plan.h"

namespace trireme {

struct GlueJob {
  RunPlan plan;  ///< except the memory
  GlueTask task;
  PretrainedModel model;
  std::vector<NamedRows> train, validation, test;
  EpochPlan epochs;
  int64_t steps = 0;
  RowLayout layout;
};

/// Reads and encodes the rows that the options ask for. start: the checkpoint to resume; empty: start from the model's
/// weights. Not collective. Throws Error::config if the checkpoint is of another training or the mesh does not fit the
/// model, and as read_data does.
GlueJob make_job(const GlueOptions& options, const std::string& start, const MeshShape& mesh, const PlannedRank& rank);

/// Collective. Checks that all ranks have read and encoded the same rows and labels of every set. Throws CommonError
/// (mismatch) naming ranks, hosts, file and the rows that differ.
void prove_same_rows(const GlueJob& job, Scalars& scalars, std::string_view host);

// The recipe's rules for an output folder that exists already.

/// The step folder that training resumes from; empty: a new run. A folder with checkpoints is resumed, unless
/// run.overwrite is set; one with other files is refused. Also empty if the run has snapshots on the hosts' local
/// disks: these must not be copied before this job has locked the folder (train/start/local_resume.h). Changes nothing;
/// not collective. Throws Error::config naming --overwrite-output-dir.
std::string find_start(const GlueOptions& options);

/// Removes the checkpoints of an earlier run.
void clear_checkpoints(const std::string& folder);

}  // namespace trireme
