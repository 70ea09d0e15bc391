#pragma once
// The memory-speed loops of the gradient exchange. Same bits on every instruction set: conversions are integer
// arithmetic and each sum is one f32 addition. Arrays do not overlap unless stated.

#include <cstdint>
#include <span>

#include "tensor/dtype.h"

namespace trireme::exchange_kernels {

/// y = x rounded as to_bf16() does.
void round(const float* x, bf16_t* y, int64_t n);
/// y = x.
void widen(const bf16_t* x, float* y, int64_t n);
/// own = sum = x[0] + x[1] + ..., added in f32 in this order; a null x means the previous `own`. bf16: it is rounded
/// first, and so is the sum.
void sum(std::span<const bf16_t* const> x, float* own, bf16_t* sum, int64_t n);
void sum(std::span<const float* const> x, float* own, float* sum, int64_t n);

}  // namespace trireme::exchange_kernels
