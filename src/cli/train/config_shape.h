#pragma once
// The options of config/config.h, and the flags of files with them, as shapes.

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_shape.h"

namespace trireme {

/// One group per group of options; wanted: which of them, all if it is null.
std::vector<FlagGroup> option_groups(bool (*wanted)(std::string_view name) = nullptr);
/// Throws Error::usage for a word that misspells one of a command's own flags and is not an option of a configuration,
/// whose reader would not know the flag.
void require_spelling(const std::vector<std::string>& words, const std::vector<std::string>& own);
/// FILES, -d, --dialect, --default, --verbose: what split_words() takes beside options.
std::vector<FlagShape> file_flags();

}  // namespace trireme
