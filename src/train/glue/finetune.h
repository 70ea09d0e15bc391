#pragma once
// Fine-tunes a classifier on labelled rows: trains, evaluates and predicts as the options ask.

#include <memory>

#include "train/glue/options.h"
#include "train/start/recipe.h"

namespace trireme {

std::unique_ptr<Recipe> fine_tuning(GlueOptions options);

}  // namespace trireme
