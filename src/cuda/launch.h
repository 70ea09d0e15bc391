#pragma once
// What the operators of cuda/ops/ launch their kernels with.

#include <cstdint>
#include <initializer_list>

#include "cuda/kernel.h"
#include "cuda/stream.h"
#include "tensor/device.h"
#include "tensor/view.h"

namespace trireme {

template <class T>
gpu::Global<T> global(View x) {
  return {static_cast<T*>(x.data()), x.count()};
}
template <class T>
gpu::Global<const T> global(ConstView x) {
  return {static_cast<const T*>(x.data()), x.count()};
}

/// Whether elements of all tensors can be accessed 16 bytes at a time, in rows of `width` elements.
inline bool packs(int64_t width, std::initializer_list<ConstView> tensors) {
  for (const ConstView& x : tensors)
    if (reinterpret_cast<uintptr_t>(x.data()) % 16 != 0) return false;
  return width % gpu::kPack == 0;
}

constexpr int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// f(element of the type): float, bf16_t or f16_t.
template <class F>
void with_element(DType dtype, F&& f) {
  if (dtype == DType::bf16) return f(bf16_t{});
  if (dtype == DType::f16) return f(f16_t{});
  f(float{});
}

/// Division of numbers below 2^31 by a divisor that the host knows: a product instead of a division.
struct Divider {
  uint32_t divisor = 1, multiplier = 1, shift = 0;
  Divider() = default;
  explicit Divider(int64_t d) : divisor(static_cast<uint32_t>(d)) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor) / divisor + 1);
  }
  TRIREME_DEVICE uint32_t divide(uint32_t n) const {
    return (static_cast<uint32_t>(uint64_t{n} * multiplier >> 32) + n) >> shift;
  }
};

/// A thread for every pack of a matrix, row by row.
struct RowPacks {
  int64_t rows = 0, width = 0;
  Divider packs;  ///< of a row
  static constexpr int kThreads = 256;

  RowPacks(int64_t rows_, int64_t width_) : rows(rows_), width(width_), packs(ceil_divide(width_, gpu::kPack)) {}
  gpu::Grid grid() const { return {ceil_divide(rows * packs.divisor, kThreads), 1, 1}; }

  struct Place {
    int64_t row, channel;  ///< of the pack's first element
    bool valid;
  };
  TRIREME_DEVICE Place place() const {
    const auto i = static_cast<uint32_t>(gpu::block_x()) * kThreads + static_cast<uint32_t>(gpu::thread());
    const uint32_t row = packs.divide(i);
    return {static_cast<int64_t>(row), static_cast<int64_t>(i - row * packs.divisor) * gpu::kPack,
            static_cast<int64_t>(row) < rows};
  }
};

/// The first element of this thread's pack of a flat array, with 256 threads.
TRIREME_DEVICE int64_t flat_pack() { return (static_cast<int64_t>(gpu::block_x()) * 256 + gpu::thread()) * gpu::kPack; }
inline gpu::Grid flat_grid(int64_t count) { return {ceil_divide(count, int64_t{256} * gpu::kPack), 1, 1}; }

}  // namespace trireme
