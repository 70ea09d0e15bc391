#pragma once
// Pre-training: windows of token files, all of the same length, evaluated on fixed windows of the validation data.

#include <memory>

#include "train/start/recipe.h"

namespace trireme {

std::unique_ptr<Recipe> pretraining(LoadedConfig loaded);

}  // namespace trireme
