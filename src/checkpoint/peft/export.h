#pragma once
// Writes the adapters of a model as a folder that PEFT loads, and merges them into its weights.

#include <string>

#include "config/config.h"
#include "optim/training_state.h"

namespace trireme {

/// adapter_config.json and adapter_model.safetensors (f32) of a whole model with adapters; modules of
/// lora.modules-to-save are written in full. options: of the run. model_type: as with_adapters(). Throws Error::io.
void export_adapter(const std::string& folder, const ParameterTable& table, const TrainingState& state,
                    const LoraOptions& options, const std::string& base, std::string_view model_type);

/// Adds the adapters of a whole model to its weights, in f32: weight += scale B A.
void merge_adapters(const ParameterTable& table, TrainingState& state);

}  // namespace trireme
