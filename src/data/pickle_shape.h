#pragma once
// Whether bytes are a pickle of Python, by walking its instructions.

#include <string_view>

namespace trireme {

/// Of protocols 2 to 5: the first instructions are ones that pickles have, with arguments that fit. Ids of 16 bits pass
/// by chance once in 10^9 files.
bool is_pickle(std::string_view file);

}  // namespace trireme
