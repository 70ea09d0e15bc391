#pragma once
// The GEMM ceiling: how fast the machine multiplies the matrices of a training step when nothing else is done.

#include <span>
#include <vector>

#include "ops/gemm_shape.h"

namespace trireme {

struct GemmTiming {
  GemmShape shape;    ///< as measured: f32 in place of bf16 where the CPU has no bf16 instructions
  GemmLayout layout;  ///< the fastest one
  double seconds = 0;
  double plain_seconds = 0;  ///< in GemmLayout::plain
};

/// The time of each shape's product in the layout that suits it best, time to pack not counted: the median over
/// `repetitions`, each on other memory than the one before, as in a step, where operands come from memory and not from
/// the cache. Throws Error::io when memory for the operands is short.
std::vector<GemmTiming> measure_gemms(std::span<const GemmShape> shapes, int threads, int repetitions);

}  // namespace trireme
