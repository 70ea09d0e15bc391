#include "checkpoint/family.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kNumber = "{}";

/// Their position of our element (row, column).
size_t position(Layout layout, int64_t heads, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  if (layout == Layout::qkv_blocks || layout == Layout::qkv_blocks_transposed) {
    const int64_t dim =
        rows / (3 * heads);  // our row: (head * 3 + part) * dim + i; theirs: (part * heads + head) * dim + i
    const int64_t head = row / (3 * dim), part = row / dim % 3;
    row = (part * heads + head) * dim + row % dim;
  }
  const bool transposed = layout == Layout::transposed || layout == Layout::qkv_blocks_transposed;
  return static_cast<size_t>(transposed ? column * rows + row : row * columns + column);
}

template <class Move>
void for_each_element(int64_t rows, int64_t columns, Move move) {
  constexpr int64_t kTile = 32;  // a tile of rows and one of columns fit the L1 cache together, either way round
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
        for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c) move(r, c);
      }
    }
  }
}

}  // namespace

std::span<const Family* const> families() {
  static const Family* const known[] = {&gpt2_family()};
  return known;
}

const Family& find_family(const std::string& model_type, std::string_view where) {
  std::vector<std::string> names;
  for (const Family* family : families()) {
    if (family->model_type == model_type) return *family;
    names.emplace_back(family->model_type);
  }
  fail(ErrorKind::data, "{}: model_type \"{}\" is not known; known are: {}", where, model_type, fmt::join(names, ", "));
}

std::string numbered(std::string_view pattern, int64_t block) {
  std::string name(pattern);
  if (const size_t at = name.find(kNumber); at != name.npos) name.replace(at, kNumber.size(), std::to_string(block));
  return name;
}

bool fits(std::string_view pattern, std::string_view name) {
  const size_t at = pattern.find(kNumber);
  if (at == pattern.npos) return pattern == name;
  const std::string_view before = pattern.substr(0, at), after = pattern.substr(at + kNumber.size());
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return false;
  const std::string_view number = name.substr(before.size(), name.size() - before.size() - after.size());
  return std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<int64_t> their_shape(Layout layout, std::span<const int64_t> ours) {
  std::vector<int64_t> shape(ours.begin(), ours.end());
  if (layout == Layout::transposed || layout == Layout::qkv_blocks_transposed) std::swap(shape.at(0), shape.at(1));
  return shape;
}

void import_values(Layout layout, int64_t heads, int64_t rows, int64_t columns, std::span<const float> theirs,
                   std::span<float> ours) {
  if (layout == Layout::same) {
    std::copy_n(theirs.begin(), ours.size(), ours.begin());
    return;
  }
  for_each_element(rows, columns, [&](int64_t r, int64_t c) {
    ours[static_cast<size_t>(r * columns + c)] = theirs[position(layout, heads, rows, columns, r, c)];
  });
}

void export_values(Layout layout, int64_t heads, int64_t rows, int64_t columns, std::span<const float> ours,
                   std::span<float> theirs) {
  for_each_element(rows, columns, [&](int64_t r, int64_t c) {
    theirs[position(layout, heads, rows, columns, r, c)] = ours[static_cast<size_t>(r * columns + c)];
  });
}

}  // namespace trireme
