#pragma once
// The common plan of pre-training and fine-tuning, made before anything large is allocated. All ranks make the same
// plan.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_folder.h"
#include "config/load.h"
#include "train/start/rank_plan.h"

namespace trireme {

/// Where a start finds the snapshot that it resumes.
struct ResumePlace {
  std::string path;    ///< step folder; empty: a new run
  std::string nearby;  ///< CheckpointFolder::nearby
};

struct RunPlan : RankPlan {
  LoadedConfig loaded;                     ///< batch.global is resolved
  std::optional<CheckpointFolder> resume;  ///< the run resumes from here
  Config resumed;                          ///< the configuration with which `resume` was written
  std::string tokenizer_json;              ///< empty: unknown
  std::string generation;                  ///< generation settings of the model's first folder; empty: none
  std::vector<DataFileFact> data_files;

  bool warms_from_zero = false;  ///< the first step's rate is 0

  const Config& config() const { return loaded.config; }
};

}  // namespace trireme
