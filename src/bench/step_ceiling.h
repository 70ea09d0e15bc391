#pragma once
// The ceiling that a training step's speed is compared with.

#include <cstdint>
#include <span>
#include <vector>

#include "model/spec.h"
#include "ops/gemm_bench.h"
#include "tensor/dtype.h"

namespace trireme {

/// FLOP/s of all GEMMs of a step, one after the other.
struct StepCeiling {
  double flops_per_second = 0;        ///< each in its best layout
  double plain_flops_per_second = 0;  ///< each with its operands as stored
};

/// The ceiling of a step over `rows` tokens: the blocks' GEMMs and, where every token has logits, the head's. Measured
/// between the steps that are compared with it: other load on the machine slows both.
class CeilingMeter {
 public:
  CeilingMeter(const Spec& spec, DType dtype, int64_t rows, int threads);

  /// Takes about as long as a step.
  void pass() { meter_.pass(1); }
  /// Median over the passes, of which there is at least one.
  StepCeiling ceiling() const;
  /// Median over the steps of a step's FLOP/s as a part of the ceiling of the pass after it.
  double share(std::span<const double> flops_per_second) const;

 private:
  struct Product {
    GemmShape shape;
    double times;  ///< in a step
  };
  static std::vector<Product> products(const Spec& spec, DType dtype, int64_t rows);
  /// FLOPs of all products.
  double flops() const;

  std::vector<Product> products_;
  GemmMeter meter_;
};

}  // namespace trireme
