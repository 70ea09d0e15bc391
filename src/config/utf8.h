#pragma once
#include <cstddef>
#include <string_view>

namespace trireme {

/// Offset of the first byte that is not part of valid UTF-8, or is NUL; npos if there is none.
size_t find_invalid_utf8(std::string_view text);

}  // namespace trireme
