#pragma once
// Boxes of tensors: what a rank holds of a tensor, what a file stores of it. Pure arithmetic.

#include "tensor/view.h"

namespace trireme {

/// The elements of a tensor whose index along every dim d is in [begin[d], begin[d] + count[d]). An array of a box has
/// these elements alone, row-major.
struct Box {
  Shape begin, count;
  bool operator==(const Box&) const = default;

  int dims() const { return count.dims(); }
  int64_t end(int dim) const { return begin[dim] + count[dim]; }
  int64_t elements() const { return count.count(); }
  bool empty() const { return elements() == 0; }
  /// Elements per row of the first dim.
  int64_t row_width() const;
  /// Rows [first, first + n), counted from the box's own first row.
  Box rows(int64_t first, int64_t n) const;
  std::string to_string() const;  ///< "[0:12, 4:8]"
};

Box whole_box(const Shape& shape);

/// The intersection of two boxes of one tensor; may be empty.
Box overlap(const Box& a, const Box& b);

/// Place in the box's array of the element at `index` of the tensor, and the inverse.
int64_t offset_of(const Box& box, const Shape& index);
Shape index_at(const Box& box, int64_t offset);

/// Calls run(place in a's array, place in b's array, elements) for each run of elements of `part` that is contiguous in
/// both; `part` lies in both boxes.
template <class Run>
void for_each_run(const Box& part, const Box& a, const Box& b, Run run) {
  if (part.empty()) return;
  int along = part.dims() - 1;  // the dim of the runs; later dims are complete in both
  int64_t length = part.count[along];
  while (along > 0 && part.count[along] == a.count[along] && part.count[along] == b.count[along])
    length *= part.count[--along];
  for (Shape index = part.begin;;) {
    run(offset_of(a, index), offset_of(b, index), length);
    int dim = along - 1;
    for (; dim >= 0 && index[dim] + 1 == part.end(dim); --dim) index = index.with(dim, part.begin[dim]);
    if (dim < 0) return;
    index = index.with(dim, index[dim] + 1);
  }
}

}  // namespace trireme
