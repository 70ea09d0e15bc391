#pragma once
// Counts with their noun, for messages.

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <string_view>

namespace trireme {

/// "1 rank", "2 ranks", "0 processes", "3 batches", "4 entries". The noun may have several words: "data rank".
std::string count_text(std::string_view count, std::string_view noun);

template <std::integral Number>
std::string count_text(Number number, std::string_view noun) {
  return count_text(std::string_view(fmt::format_int(number).c_str()), noun);
}

}  // namespace trireme
