#pragma once
#include <string>
#include <string_view>

namespace trireme {

/// A message that names options of a run, in the command's own names for them: glue's --output-dir is run.dir to the
/// code below. Other commands' messages stay as they are.
std::string in_words_of(std::string_view command, std::string_view message);

}  // namespace trireme
