#pragma once
// The memory-speed loops of the gradient exchange. Same bits on every instruction set: conversions are integer
// arithmetic and each sum is one f32 addition. Arrays do not overlap unless said.

#include <cstdint>

#include "tensor/dtype.h"

namespace trireme::exchange_kernels {

/// y = x rounded as to_bf16() does.
void round(const float* x, bf16_t* y, int64_t n);
/// y = x.
void widen(const bf16_t* x, float* y, int64_t n);
/// y += x.
void add(const bf16_t* x, float* y, int64_t n);
void add(const float* x, float* y, int64_t n);

}  // namespace trireme::exchange_kernels
