#pragma once
// bf16 of a CPU with AVX512-BF16, as an element type of kernels: one instruction rounds a vector to it. As all bf16
// arithmetic of such a CPU does, this makes numbers below 1.2e-38 zero.

#include "tensor/dtype.h"

namespace trireme {

struct native_bf16_t : bf16_t {};
template <>
struct DTypeOf<native_bf16_t> {
  static constexpr DType value = DType::bf16;
};

/// Elements that are rounded to bf16 when stored: functions of them may be off by a small part of that.
template <class T>
constexpr bool is_bf16 = std::is_base_of_v<bf16_t, T>;

}  // namespace trireme
