#pragma once
// The options of the group model as facts: the values of the model that a run trains, with their origin.

#include "checkpoint/model_folder.h"
#include "train/plan.h"

namespace trireme {

/// As resolve_model_options(), and for the model of a folder that is on this host the folder's values. Throws
/// Error::config if options contradict the folder.
void resolve_model(LoadedConfig& loaded);

/// Of a plan whose model is known.
void settle_model(RunPlan& plan);

/// The folder's model with the options that were given. Throws Error::config if it is another model.
Spec spec_of_folder(const ModelFolder& folder, const LoadedConfig& loaded);

}  // namespace trireme
