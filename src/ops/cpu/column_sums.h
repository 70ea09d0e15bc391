#pragma once
// Sums over rows that threads make apart and then add in the order of the threads: gradients of biases and norms.

#include "ops/cpu/team.h"
#include "ops/ops.h"

namespace trireme {

/// One row of f32 sums per thread, in scratch.
class ColumnSums {
 public:
  ColumnSums(Arena& scratch, int parts, int64_t width)
      : parts_(parts), width_(width), stride_(padded(width)), sums_(scratch.take(DType::f32, {parts, stride_})) {}
  static size_t scratch_bytes(int parts, int64_t width) {
    return static_cast<size_t>(parts * padded(width)) * sizeof(float);
  }

  float* of(int part) const { return sums_.as<float>() + part * stride_; }

  /// out[i] =/+= sum over parts, for this part's share of the columns; every part's sums are complete.
  void finish(int part, View out, Write write) const {
    const Range columns = share_of(width_, part, parts_, kLine);
    float* result = out.as<float>();
    float* total = of(0);
    for (int other = 1; other < parts_; ++other) {
      const float* more = of(other);
      for (int64_t i = columns.begin; i < columns.end; ++i) total[i] += more[i];
    }
    for (int64_t i = columns.begin; i < columns.end; ++i)
      result[i] = write != Write::overwrite ? result[i] + total[i] : total[i];
  }

 private:
  static constexpr int64_t kLine = 16;  // floats in a cache line: no two threads write one
  static int64_t padded(int64_t width) { return (width + kLine - 1) / kLine * kLine; }

  int parts_;
  int64_t width_, stride_;
  View sums_;
};

}  // namespace trireme
