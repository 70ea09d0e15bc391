#pragma once
// run_glue's arguments: what each of them is here.

#include <optional>
#include <string>
#include <vector>

#include "train/glue/options.h"

namespace trireme {

/// Arguments as run_glue takes them ('-' equals '_', both spellings of the strategies), one *.json file with them, and
/// native options like --comm.wire. Every argument is mapped, accepted without effect (a line says so) or refused where
/// it would change numbers. Throws Error::usage, Error::config, Error::io.
GlueOptions read_glue_flags(std::vector<std::string> arguments);

/// The exit code after --help was asked for.
std::optional<int> print_glue_help(const std::vector<std::string>& arguments);

}  // namespace trireme
