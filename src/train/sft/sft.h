#pragma once
// Fine-tunes a language model on conversations: learns what the assistant says.

#include <memory>
#include <string>
#include <vector>

#include "train/start/recipe.h"

namespace trireme {

/// Values that options of a training on conversations have if nothing sets them, as flags for load_config(). Those of
/// batch.sequence, run.steps, evaluation.every and checkpoint.every follow from the model and the conversations.
std::vector<std::string> chat_tuning_defaults();

std::unique_ptr<Recipe> chat_tuning(LoadedConfig loaded);

}  // namespace trireme
