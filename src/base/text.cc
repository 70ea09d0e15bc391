#include "base/text.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace trireme {
namespace {

char fold(char c) { return c == '_' ? '-' : c; }

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (fold(a[i - 1]) != fold(b[j - 1]));
      diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const auto best =
      std::ranges::min_element(candidates, {}, [&](const std::string& c) { return edit_distance(word, c); });
  return best == candidates.end() ? std::string() : *best;
}

}  // namespace trireme
