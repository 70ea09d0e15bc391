#pragma once
#include <string>
#include <string_view>

namespace trireme {

/// Replaces names of options in a message by the command's own names: glue's --output-dir is run.dir in lower layers.
/// A name in double quotes stays as it is: somebody typed it.
/// Messages of other commands stay unchanged.
std::string in_words_of(std::string_view command, std::string_view message);

}  // namespace trireme
