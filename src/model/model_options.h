#pragma once
// The model that the options of a run describe: a preset or GPT-2's choices, and over them every option that was given.

#include "config/load.h"
#include "model/parameter_table.h"
#include "model/spec.h"

namespace trireme {

/// Lays the options that were given over a spec that comes from elsewhere (preset, folder, checkpoint).
Spec with_given_options(Spec spec, const LoadedConfig& loaded);

/// The new model that the options describe; vocabulary 0 means `data_vocabulary`. Throws Error::config.
Spec spec_from_options(const LoadedConfig& loaded, int64_t data_vocabulary);

void set_dropout(Spec& spec, const ModelOptions& options);

InitScheme init_scheme_of(const ModelOptions& options);

/// Sets every option of the group model of a new model to its resolved value, with its origin. Other models are
/// unchanged: their folder describes them. Throws Error::config for an invalid model.
void resolve_model_options(LoadedConfig& loaded);

/// The same for a known model, of which `by` is the preset, the folder or the snapshot (empty: the options' defaults).
/// A value that no option has, as the factors of longrope, stays away; the option's origin says so.
void settle_model_options(LoadedConfig& loaded, const Spec& spec, const std::string& by);

}  // namespace trireme
