#pragma once
// The command line of `trireme sft`: short flags are names of native options.

#include <string>
#include <vector>

#include "config/load.h"

namespace trireme {

struct SftWords {
  LoadedConfig loaded;
  std::vector<std::string> files;  ///< of the configuration
};
/// Throws Error::usage, Error::config.
SftWords read_sft_words(std::vector<std::string> words);

/// What --help prints before the native options.
std::string sft_help();

}  // namespace trireme
