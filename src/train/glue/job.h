#pragma once
// The plan and the examples of a fine-tuning run, made from its options before anything large is allocated.

#include "train/glue/data.h"
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

}  // namespace trireme
