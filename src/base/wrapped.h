#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

/// The words of text in lines of at most `width`; every line after the first begins with `indent` blanks.
std::string wrapped(std::string_view text, size_t width, size_t indent);

}  // namespace trireme
