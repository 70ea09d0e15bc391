#pragma once
// What pre-training and fine-tuning have in common, decided before anything large is allocated. Every rank decides
// alike.

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/mesh.h"
#include "config/load.h"
#include "model/memory.h"
#include "model/parameter_table.h"

namespace trireme {

struct RunPlan {
  LoadedConfig loaded;  ///< with batch.global as it is in force
  Spec spec;
  InitScheme init_scheme = InitScheme::gpt2;  ///< of weights that start from scratch
  DType dtype = DType::f32;
  MeshShape mesh;                          ///< with every axis filled in
  Layout held;                             ///< what this rank holds of the model
  bool trains = true;                      ///< else it only evaluates: no gradients, no moments, no snapshots
  ModelShape shape;                        ///< of the model's memory
  int64_t micro_sequences = 0;             ///< of the largest micro-batch
  int64_t step_rows = 0;                   ///< of all micro-batches of a step on one rank, at most
  std::optional<CheckpointFolder> resume;  ///< the run goes on from here
  std::string tokenizer_json;              ///< empty: none known
  std::string generation;                  ///< what the model's first folder says of writing text; empty: nothing
  std::vector<DataFileFact> data_files;

  const Config& config() const { return loaded.config; }
};

}  // namespace trireme
