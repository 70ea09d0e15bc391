#pragma once
// The GEMM ceiling: how fast the machine multiplies the matrices of a training step when it does nothing else.

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "ops/gemm_shape.h"

namespace trireme {

class Gemm;

struct GemmTiming {
  GemmShape shape;    ///< as measured: f32 in place of bf16 where the CPU has no bf16 instructions
  GemmLayout layout;  ///< the fastest one
  double seconds = 0;
  double plain_seconds = 0;  ///< in GemmLayout::plain
};

/// Times of products in every layout that they can have, time to pack not counted, taken in passes: a caller that
/// compares other work with them measures both in turn, because other programs on the machine slow down both.
class GemmMeter {
 public:
  /// Throws Error::usage.
  GemmMeter(std::span<const GemmShape> shapes, int threads);
  ~GemmMeter();
  GemmMeter(const GemmMeter&) = delete;
  GemmMeter& operator=(const GemmMeter&) = delete;

  /// Every product, the median of this number of runs, each on different memory, as in a step, where operands come from
  /// memory and not from the cache. Uses about 256 MB, for one product at a time, and frees it. Throws Error::usage,
  /// and Error::io if memory is short.
  void pass(int repetitions);

  /// Median over the passes. There is at least one.
  GemmTiming timing(size_t shape) const;
  /// Of one pass.
  double seconds(size_t shape, GemmLayout layout, int pass) const {
    return products_[shape].seconds[static_cast<size_t>(layout)][static_cast<size_t>(pass)];
  }

 private:
  struct Product {
    GemmShape shape;
    std::array<std::vector<double>, kGemmLayouts> seconds;  ///< of each pass; empty for a layout that it cannot have
  };
  std::unique_ptr<Gemm> gemm_;
  std::vector<Product> products_;
  int threads_;
};

/// The timings of one pass.
std::vector<GemmTiming> measure_gemms(std::span<const GemmShape> shapes, int threads, int repetitions);

}  // namespace trireme
