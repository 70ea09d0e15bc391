#pragma once
#include <functional>
#include <memory>

#include "train/start/recipe.h"

namespace trireme {

/// A command that trains: reads its words before MPI starts, lets all ranks report errors in them together, and starts
/// the training. Returns the exit code. read throws Error::usage and the like.
int run_recipe(const std::function<std::unique_ptr<Recipe>()>& read);

}  // namespace trireme
