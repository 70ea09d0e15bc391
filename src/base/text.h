#pragma once
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Of `candidates`, the one with the smallest edit distance to `word` ('-' equals '_'); empty if there are none.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace trireme
