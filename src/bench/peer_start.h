#pragma once
// What another program needs to repeat our exact steps: the first weights, and every step's tokens.

#include <string>

#include "base/private_folder.h"
#include "model/parameter_table.h"
#include "train/step_batches.h"

namespace trireme {

/// A safetensors file in a temporary folder: the f32 weights of initialize() with this seed by the names of
/// the table, and "tokens" and "targets", I32 [steps, tokens of a step]. The file goes with the object.
class PeerStart {
 public:
  /// batches: of one micro-batch; samples: of a step. Throws Error::io.
  PeerStart(const ParameterTable& table, uint64_t seed, StepBatches& batches, int64_t steps, int64_t samples);
  std::string path() const { return folder_.file("start.safetensors"); }

 private:
  PrivateFolder folder_{"step"};
};

}  // namespace trireme
