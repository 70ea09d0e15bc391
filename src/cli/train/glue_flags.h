#pragma once
// run_glue's arguments and their meaning here.

#include <string>
#include <vector>

#include "train/glue/options.h"

namespace trireme {

/// Arguments as run_glue takes them ('-' equals '_', both spellings of the strategies), one *.json file with them, and
/// native options like --comm.wire. Every argument is mapped, accepted without effect (a log line says so), or refused
/// if it would change results. Throws Error::usage, Error::config, Error::io.
GlueOptions read_glue_flags(std::vector<std::string> arguments);

}  // namespace trireme
