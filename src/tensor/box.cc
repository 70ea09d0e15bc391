#include "tensor/box.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

int64_t Box::row_width() const {
  int64_t width = 1;
  for (int d = 1; d < dims(); ++d) width *= count[d];
  return width;
}

Box Box::rows(int64_t first, int64_t n) const {
  assert(first >= 0 && n >= 0 && first + n <= count[0]);
  return {begin.with(0, begin[0] + first), count.with(0, n)};
}

std::string Box::to_string() const {
  std::string text;
  for (int d = 0; d < dims(); ++d) text += fmt::format("{}{}:{}", d ? ", " : "", begin[d], end(d));
  return "[" + text + "]";
}

Box whole_box(const Shape& shape) {
  Box box{shape, shape};
  for (int d = 0; d < shape.dims(); ++d) box.begin = box.begin.with(d, 0);
  return box;
}

Box overlap(const Box& a, const Box& b) {
  assert(a.dims() == b.dims());
  Box common = a;
  for (int d = 0; d < a.dims(); ++d) {
    const int64_t begin = std::max(a.begin[d], b.begin[d]);
    common.begin = common.begin.with(d, begin);
    common.count = common.count.with(d, std::max<int64_t>(0, std::min(a.end(d), b.end(d)) - begin));
  }
  return common;
}

int64_t offset_of(const Box& box, const Shape& index) {
  int64_t offset = 0;
  for (int d = 0; d < box.dims(); ++d) offset = offset * box.count[d] + index[d] - box.begin[d];
  return offset;
}

Shape index_at(const Box& box, int64_t offset) {
  Shape index = box.begin;
  for (int d = box.dims() - 1; d >= 0; --d) {
    index = index.with(d, box.begin[d] + offset % box.count[d]);
    offset /= box.count[d];
  }
  return index;
}

}  // namespace trireme
