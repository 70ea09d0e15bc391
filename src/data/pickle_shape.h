#pragma once
// Recognizes a Python pickle by walking its instructions.

#include <string_view>

namespace trireme {

/// For protocols 2 to 5: the first instructions are valid and their arguments fit. 16-bit ids match by chance once in
/// 10^9 files.
bool is_pickle(std::string_view file);

}  // namespace trireme
