#pragma once
// Writes the adapters of a model as a folder that PEFT loads, and merges them into its weights.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors/safetensors.h"
#include "config/config.h"
#include "optim/training_state.h"

namespace trireme {

/// A tensor as adapter_model.safetensors has it.
struct PeftTensor {
  SafetensorsEntry entry;  ///< F32
  std::vector<float> values;
};
/// The adapters of a whole model and what is trained in full beside them, by name. values_of: all values, as they are
/// stored, of one of our parameters: its weights, or their gradient. model_type: as with_adapters(). Throws
/// Error::config for an adapter that the family's published linears do not have.
std::vector<PeftTensor> peft_tensors(const ParameterTable& whole,
                                     const std::function<std::vector<float>(const Parameter&)>& values_of,
                                     std::string_view model_type);

/// adapter_config.json and adapter_model.safetensors (f32) of a whole model with adapters; modules of
/// lora.modules-to-save are written in full. options: of the run. model_type: as with_adapters(). Throws Error::io.
void export_adapter(const std::string& folder, const ParameterTable& table, const TrainingState& state,
                    const LoraOptions& options, const std::string& base, std::string_view model_type);

/// Adds the adapters of a whole model to its weights, in f32: weight += scale B A; then rows with a magnitude get it as
/// their length.
void merge_adapters(const ParameterTable& table, TrainingState& state);

}  // namespace trireme
