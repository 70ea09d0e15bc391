#pragma once
// Options that follow from the model and the number of ranks, as facts, and options that are valid but cannot be
// trained. `config show` prints them, too.

#include <cstdint>
#include <string>

#include "checkpoint/model_folder.h"
#include "comm/mesh.h"
#include "config/load.h"
#include "train/plan.h"

namespace trireme {

/// As resolve_model_options(), and for the model of a folder that is on this host the folder's values. Throws
/// Error::config if options contradict the folder.
void resolve_model(LoadedConfig& loaded);

/// Settles the model's options in a plan whose model is known.
void settle_model(RunPlan& plan);

/// The folder's model with the options that were given. Throws Error::config if it is another model.
Spec spec_of_folder(const ModelFolder& folder, const LoadedConfig& loaded);

/// The mesh of the options on `ranks` ranks. Throws Error::config if the mesh does not fit this number, or mesh.stages
/// is not a list of numbers.
MeshShape mesh_of(const MeshOptions& options, int ranks, const std::string& source);

/// Sets mesh.data, batch.global, batch.micro and batch.accumulation to their values on `ranks` ranks. Throws
/// Error::config if mesh or batch does not fit this number. source: where the number comes from, a flag or a variable.
void resolve_for_ranks(LoadedConfig& loaded, int ranks, const std::string& source = "--ranks");

/// Throws Error::config with every pair of options that exclude each other, and what to set.
void require_layout(const LoadedConfig& loaded);
/// The same for ranks of which each has a GPU and `data` share gradients.
void require_layout_on_gpus(const LoadedConfig& loaded, int64_t data);
/// Why GPUs cannot train so; empty: they can. data: ranks that share gradients.
std::string reason_against_gpus(const Config& config, int64_t data);
/// The same, and options that cannot be trained for other reasons, such as fp16.
void require_runnable(const LoadedConfig& loaded);

}  // namespace trireme
