#pragma once
// Trains a language model on pairs of answers, of which one is preferred.

#include <memory>
#include <string>
#include <vector>

#include "train/start/recipe.h"

namespace trireme {

/// As chat_tuning_defaults().
std::vector<std::string> preference_tuning_defaults();

std::unique_ptr<Recipe> preference_tuning(LoadedConfig loaded);

}  // namespace trireme
