#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "train/start/recipe.h"

namespace trireme {

/// A command that trains: reads its arguments before MPI starts, tells what is wrong with them by all ranks together,
/// and starts what they ask for. Returns the exit code. read throws Error::usage and the like.
int run_recipe(const std::vector<std::string>& arguments,
               const std::function<std::unique_ptr<Recipe>(const std::vector<std::string>&)>& read);

}  // namespace trireme
