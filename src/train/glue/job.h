#pragma once
// The plan and the examples of a fine-tuning run, made from its options before anything large is allocated.

#include <string_view>

#include "comm/scalars.h"
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

/// Collective. Checks that all ranks have read and encoded the same rows and labels of every set. Throws CommonError
/// (mismatch) naming ranks, hosts, file and the rows that differ.
void prove_same_rows(const GlueJob& job, Scalars& scalars, std::string_view host);

}  // namespace trireme
