#pragma once
#include <algorithm>
#include <string_view>

namespace trireme {

/// Whether the list has this item between its separators.
constexpr bool lists_word(std::string_view list, std::string_view item, char separator = ' ') {
  while (true) {
    const size_t end = std::min(list.find(separator), list.size());
    if (list.substr(0, end) == item) return true;
    if (end == list.size()) return false;
    list.remove_prefix(end + 1);
  }
}

}  // namespace trireme
