#pragma once
// Writes a model as a checkpoint of GPT-NeoX, weights only: NeoX loads it with `finetune: true`.

#include <functional>
#include <string>

#include "checkpoint/snapshot/checkpoint.h"

namespace trireme {

struct NeoxExport {
  int tensor = 1;    ///< ranks that the tensors are cut for
  int pipeline = 1;  ///< stages, for which there are mp_rank files; 0: without the pipeline engine, as NeoX means it
  DType dtype = DType::f32;  ///< f32 or bf16
  RunCounters progress = {};
  std::string config_json = {};  ///< of the run; empty: unknown, uses the defaults
};

/// Writes `latest` and global_stepN/ with every layer's files (pipeline 0: the mp_rank files hold the weights),
/// mp_rank files and configs/trireme.yml, with which NeoX makes this model. Biases that every rank adds are divided by
/// the ranks. A vocabulary that the ranks do not divide gets rows of zeros, with a warning; they are removed when it is
/// read again. The table is of the whole model. `stop` as in export_huggingface(). Throws Error::config for models that
/// NeoX does not support, Error::io.
void export_neox(const std::string& folder, const Spec& spec, const ParameterTable& table, const TrainingState& state,
                 const NeoxExport& options, const std::function<bool()>& stop = {});

}  // namespace trireme
