// Operators of the gradient exchange. They run on one thread, concurrently with the others.

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/exchange_kernels.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 64;  // elements looked at together: four cache lines

bool any_bit(const float* x, int64_t n) {
  uint64_t bits = 0;
  int64_t i = 0;
  for (; i + 2 <= n; i += 2) {
    uint64_t pair;
    std::memcpy(&pair, x + i, sizeof pair);
    bits |= pair;
  }
  if (i < n) bits |= std::bit_cast<uint32_t>(x[i]);
  return bits != 0;
}

bool row_touched(const float* row, int64_t width) {
  for (int64_t first = 0; first < width; first += kBlock) {
    if (any_bit(row + first, std::min(kBlock, width - first))) return true;
  }
  return false;
}

bool is_marked(const int64_t* map, int64_t row) {
  return (static_cast<uint64_t>(map[row / 64]) >> (row % 64) & 1) != 0;
}

void move_row(float* x, int64_t from, int64_t to, int64_t width) {
  if (from != to) std::memcpy(x + to * width, x + from * width, static_cast<size_t>(width) * sizeof(float));
}

template <class T>
std::span<const T* const> pointers(std::span<const ConstView> parts) {
  thread_local std::vector<const T*> all;  // a step allocates nothing
  all.clear();
  for (const ConstView& part : parts) all.push_back(part.empty() ? nullptr : part.as<T>());
  return all;
}

}  // namespace

void CpuOps::do_wire_cast(Context&, ConstView x, View y) {
  if (x.dtype() == y.dtype()) {
    std::memcpy(y.data(), x.data(), x.bytes());
  } else if (y.dtype() == DType::bf16) {
    exchange_kernels::round(x.as<float>(), y.as<bf16_t>(), x.count());
  } else {
    exchange_kernels::widen(x.as<bf16_t>(), y.as<float>(), x.count());
  }
}

void CpuOps::do_sum_contributions(Context&, std::span<const ConstView> parts, View own, View sum) {
  if (sum.dtype() == DType::bf16) {
    exchange_kernels::sum(pointers<bf16_t>(parts), own.as<float>(), sum.as<bf16_t>(), sum.count());
  } else {
    exchange_kernels::sum(pointers<float>(parts), own.as<float>(), sum.as<float>(), sum.count());
  }
}

void CpuOps::do_mark_rows(Context&, ConstView x, View map) {
  const float* values = x.as<float>();
  auto* words = map.as<int64_t>();
  std::fill_n(words, map.count(), 0);
  for (int64_t row = 0; row < x.rows(); ++row) {
    if (row_touched(values + row * x.width(), x.width()))
      words[row / 64] = static_cast<int64_t>(static_cast<uint64_t>(words[row / 64]) | uint64_t{1} << (row % 64));
  }
}

void CpuOps::do_pack_rows(Context&, View x, ConstView map) {
  int64_t packed = 0;
  for (int64_t row = 0; row < x.rows(); ++row) {
    if (is_marked(map.as<int64_t>(), row)) move_row(x.as<float>(), row, packed++, x.width());
  }
}

void CpuOps::do_unpack_rows(Context&, View x, ConstView map) {
  int64_t packed = 0;
  for (const int64_t word : map.values<int64_t>()) packed += std::popcount(static_cast<uint64_t>(word));
  const int64_t moved_over = packed;  // memory after it was not written: its pages stay untouched
  // From the back: a row's place is never before its packed place.
  for (int64_t row = x.rows() - 1; row >= 0; --row) {
    if (is_marked(map.as<int64_t>(), row)) {
      move_row(x.as<float>(), --packed, row, x.width());
    } else if (row < moved_over) {
      std::fill_n(x.as<float>() + row * x.width(), x.width(), 0.0f);
    }
  }
}

}  // namespace trireme
