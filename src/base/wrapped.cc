#include "base/wrapped.h"

#include <algorithm>

namespace trireme {

std::string wrapped(std::string_view text, size_t width, size_t indent) {
  std::string result;
  size_t column = 0;
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    if (column > 0 && column + 1 + space > width) {
      result += '\n' + std::string(indent, ' ');
      column = 0;
    } else if (column > 0) {
      result += ' ';
      ++column;
    }
    result += text.substr(0, space);
    column += space;
    text.remove_prefix(std::min(space + 1, text.size()));
  }
  return result;
}

}  // namespace trireme
