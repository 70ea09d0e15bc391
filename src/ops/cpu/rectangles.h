#pragma once
// How the strips and panels of a product are divided among threads.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ops/cpu/team.h"

namespace trireme {

/// A rectangle of strips and panels per thread, of those panels that are packed together.
struct Rectangles {
  int64_t strips = 0, panels = 0;                        ///< of c
  int64_t across = 1, strips_each = 0, panels_each = 0;  ///< threads side by side; the maximum per thread
  int64_t panels_at_once = 0;                            ///< those that are packed together; else all

  /// The rectangle of a thread: strips, and panels of those from first_panel on.
  std::pair<Range, Range> of(int part, int64_t first_panel) const {
    const int64_t row = part / across, column = part % across;
    const auto piece = [](int64_t first, int64_t i, int64_t each, int64_t end) {
      return Range{std::min(end, first + i * each), std::min(end, first + (i + 1) * each)};
    };
    return {piece(0, row, strips_each, strips),
            piece(first_panel, column, panels_each, std::min(panels, first_panel + panels_at_once))};
  }

  /// The rectangles whose cost(strips, panels) is least; of equal ones those with most threads side by side.
  template <class Cost>
  void split(int threads, Cost&& cost) {
    int64_t least = INT64_MAX;
    for (int64_t columns = threads; columns >= 1; --columns) {
      if (threads % columns != 0) continue;
      const int64_t rows = threads / columns, s = (strips + rows - 1) / rows,
                    p = (panels_at_once + columns - 1) / columns, of_these = cost(s, p);
      if (of_these >= least) continue;
      least = of_these;
      across = columns, strips_each = s, panels_each = p;
    }
  }
};

}  // namespace trireme
