#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/start/recipe.h"

namespace trireme {

/// A command that trains: reads its arguments before MPI starts, lets all ranks report errors in them together, and
/// starts the training. Returns the exit code. read throws Error::usage and the like.
int run_recipe(const std::vector<std::string>& arguments,
               const std::function<std::unique_ptr<Recipe>(const std::vector<std::string>&)>& read);

}  // namespace trireme
