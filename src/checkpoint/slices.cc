#include "checkpoint/slices.h"

#include <algorithm>

namespace trireme {
namespace {

Shape with_rows(const Shape& shape, int64_t rows) {
  switch (shape.dims()) {
    case 1:
      return {rows};
    case 2:
      return {rows, shape[1]};
    case 3:
      return {rows, shape[1], shape[2]};
    default:
      return {rows, shape[1], shape[2], shape[3]};
  }
}

}  // namespace

std::string stored_name(const std::string& parameter, Part part) {
  return part == Part::weight ? parameter : parameter + (part == Part::moment1 ? ".m" : ".v");
}

int64_t row_width(const Shape& shape) { return shape[0] > 0 ? shape.count() / shape[0] : 0; }

std::vector<Slice> plan_slices(const ParameterTable& table, int ranks, int rank, bool moments) {
  // Element e of the long list belongs to rank floor(e * ranks / total); a row to the rank of its first element.
  const int64_t total = table.total();
  const auto begin_of = [&](int64_t r) {
    __extension__ using wide = __int128;
    return static_cast<int64_t>((static_cast<wide>(total) * r + ranks - 1) / ranks);
  };
  const int64_t begin = begin_of(rank), end = begin_of(rank + 1);
  std::vector<Slice> slices;
  for (const Part part : kParts) {
    if (part != Part::weight && !moments) continue;
    int64_t offset = 0;
    for (size_t i = 0; i < table.all().size(); ++i) {
      const Shape& shape = table.all()[i].stored_shape;
      const int64_t width = row_width(shape);
      const auto row_at = [&](int64_t element) {
        return std::clamp<int64_t>((element - offset + width - 1) / width, 0, shape[0]);
      };
      const int64_t first = row_at(begin), last = row_at(end);
      if (first < last) slices.push_back({i, part, first, last - first});
      offset += shape.count();
    }
  }
  return slices;
}

Parameter rows_of(const Parameter& parameter, int64_t first_row, int64_t rows) {
  Parameter slice = parameter;
  slice.offset += first_row * row_width(parameter.stored_shape);
  slice.stored_shape = with_rows(parameter.stored_shape, rows);
  const bool last = first_row + rows == parameter.stored_shape[0];
  slice.shape = with_rows(parameter.shape, last ? parameter.shape[0] - first_row : rows);
  return slice;
}

}  // namespace trireme
