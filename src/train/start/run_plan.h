#pragma once
// What pre-training and fine-tuning have in common, decided before anything large is allocated. Every rank decides
// alike.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/snapshot/checkpoint.h"
#include "config/load.h"
#include "train/start/rank_plan.h"

namespace trireme {

/// Where a start finds what it resumes.
struct ResumePlace {
  std::string path;    ///< step folder; empty: a new run
  std::string nearby;  ///< CheckpointFolder::nearby
};

struct RunPlan : RankPlan {
  LoadedConfig loaded;                     ///< with batch.global as it is in force
  std::optional<CheckpointFolder> resume;  ///< the run goes on from here
  std::string tokenizer_json;              ///< empty: none known
  std::string generation;                  ///< what the model's first folder says of writing text; empty: nothing
  std::vector<DataFileFact> data_files;

  bool warms_from_zero = false;  ///< the first step's rate is 0

  const Config& config() const { return loaded.config; }
};

}  // namespace trireme
