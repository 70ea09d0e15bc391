// How tensors become operands of products whose elements E are float, or bf16 with pairs as steps of k
// (tile_gemm-inl.h, tile_registers-inl.h); compiled once per instruction set.

#if defined(TRIREME_OPERANDS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_OPERANDS_INL_H
#undef TRIREME_OPERANDS_INL_H
#else
#define TRIREME_OPERANDS_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "ops/cpu/tile_registers-inl.h"
#include "ops/cpu/transpose-inl.h"
#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

/// Columns of a right operand that transpose_rows() makes: attention's keys of a tile, a layer's outputs of a panel.
constexpr int64_t kPanel = 64;

HWY_INLINE hn::Mask<TagF32> first_lanes(int64_t n) {
  return hn::RebindMask(TagF32(), hn::Lt(hn::Iota(TagI32(), 0), hn::Set(TagI32(), static_cast<int32_t>(n))));
}

template <class E>
HWY_INLINE int64_t whole_columns(int64_t n) {
  return (n + Products<E>::kColumns - 1) / Products<E>::kColumns * Products<E>::kColumns;
}
/// n elements of k with the zeros that follow them in operands E.
template <class E>
HWY_INLINE int64_t whole_steps(int64_t n) {
  return (n + Products<E>::kSteps - 1) / Products<E>::kSteps * Products<E>::kSteps;
}

/// Rows of a tensor, `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  int64_t stride;
  T* operator[](int64_t row) const { return data + row * stride; }
  Rows from(int64_t row) const { return {data + row * stride, stride}; }
};

/// Prefetches a later row: rows may be far apart in memory, so that the hardware does not predict the next one.
template <class T>
HWY_INLINE void foresee(Rows<const T> rows, int64_t row, int64_t dim) {
  constexpr int64_t kAhead = 12;  // rows of one or two lines each: about what a core has in flight
  const auto* p = reinterpret_cast<const char*>(rows[row + kAhead]);
  for (int64_t byte = 0; byte < dim * static_cast<int64_t>(sizeof(T)); byte += 64) __builtin_prefetch(p + byte);
}

/// Left operand: to [count, ld] = from [count, dim], with zeros after.
template <class T, class E>
HWY_INLINE void copy_rows(Rows<const T> from, int64_t count, int64_t dim, E* to, int64_t ld) {
  for (int64_t row = 0; row < count; ++row) {
    foresee(from, row, dim);
    int64_t c = 0;
    if constexpr (is_bf16<T> && is_bf16<E>)
      for (; c + 2 * kLanes <= dim; c += 2 * kLanes)
        hn::StoreU(hn::LoadU(TagU32(), reinterpret_cast<const uint32_t*>(from[row] + c)), TagU32(),
                   reinterpret_cast<uint32_t*>(to + row * ld + c));
    for (; c < ld; c += kLanes) {
      const VecF32 v = c + kLanes <= dim ? load(from[row] + c, AllLanes{})
                       : c < dim         ? load(from[row] + c, dim - c)
                                         : hn::Zero(TagF32());
      store(v, to + row * ld + c, AllLanes{});
    }
  }
}

/// Right operand whose rows are steps of k: to [count, dim].
template <class T>
HWY_INLINE void copy_steps(Rows<const T> from, int64_t count, int64_t width, float* to, int64_t dim) {
  copy_rows(from, count, width, to, dim);
}
/// Pairs of rows: to [whole_steps(count) / 2, dim, 2]. Elements of bf16 are kept exactly.
template <class T, class E>
requires is_bf16<E> HWY_INLINE void copy_steps(Rows<const T> from, int64_t count, int64_t width, E* to, int64_t dim) {
  for (int64_t row = 0; row < whole_steps<E>(count); row += 2) {
    foresee(from, row, width);
    foresee(from, row + 1, width);
    int64_t c = 0;
#if HWY_TARGET == HWY_AVX3
    if (row + 1 < count)
      for (; c + 2 * kLanes <= width; c += 2 * kLanes) {
        alignas(64) static constexpr uint16_t kFirst[32] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                            37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                            11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
        const __m512i even = _mm512_loadu_si512(from[row] + c), odd = _mm512_loadu_si512(from[row + 1] + c),
                      first = _mm512_load_si512(kFirst), second = _mm512_or_si512(first, _mm512_set1_epi16(16));
        _mm512_storeu_si512(to + row * dim + 2 * c, _mm512_permutex2var_epi16(even, first, odd));
        _mm512_storeu_si512(to + row * dim + 2 * c + 2 * kLanes, _mm512_permutex2var_epi16(even, second, odd));
      }
#endif
    for (; c < dim; c += kLanes) {
      const auto bits = [&](int64_t r) HWY_ATTR {
        const VecF32 v = r >= count || c >= width ? hn::Zero(TagF32())
                         : c + kLanes <= width    ? load(from[r] + c, AllLanes{})
                                                  : load(from[r] + c, width - c);
        return hn::BitCast(TagU32(), v);
      };
      hn::StoreU(hn::Or(hn::ShiftRight<16>(bits(row)), bits(row + 1)), TagU32(),
                 reinterpret_cast<uint32_t*>(to + row * dim + 2 * c));
    }
  }
}

HWY_INLINE float widened(float x) { return x; }
HWY_INLINE float widened(bf16_t x) { return to_float(x); }

/// Right operand whose columns are rows of the tensor: to [dim, kPanel] = from [count, dim] transposed, with zeros
/// after.
template <class T>
HWY_INLINE void transpose_rows(Rows<const T> from, int64_t count, int64_t dim, float* to) {
  const auto load_at = [&](int64_t row, int64_t c) HWY_ATTR {
    __builtin_prefetch(from[row + kLanes] + c);
    return hn::BitCast(TagU32(), load(from[row] + c, AllLanes{}));
  };
  const auto store_at = [&](int64_t c, int64_t row, VecU32 v)
                            HWY_ATTR { hn::StoreU(v, TagU32(), reinterpret_cast<uint32_t*>(to) + c * kPanel + row); };
  for (int64_t c = transpose_whole_vectors(count, kPanel, dim, load_at, store_at); c < dim; ++c) {
    for (int64_t row = 0; row < count; ++row) to[c * kPanel + row] = widened(from[row][c]);
    for (int64_t row = count; row < kPanel; ++row) to[c * kPanel + row] = 0;
  }
}
/// Pairs along the tensor's rows: to [whole_steps(dim) / 2, kPanel, 2].
template <class T, class E>
requires is_bf16<E> HWY_INLINE void transpose_rows(Rows<const T> from, int64_t count, int64_t dim, E* to) {
  const auto load_at = [&](int64_t row, int64_t pair) HWY_ATTR {
    __builtin_prefetch(from[row + kLanes] + 2 * pair);
    return hn::LoadU(TagU32(), reinterpret_cast<const uint32_t*>(from[row]) + pair);
  };
  const auto store_at = [&](int64_t pair, int64_t row, VecU32 v) HWY_ATTR {
    hn::StoreU(v, TagU32(), reinterpret_cast<uint32_t*>(to) + pair * kPanel + row);
  };
  int64_t c = 2 * transpose_whole_vectors(count, kPanel, dim / 2, load_at, store_at);
  for (; c < dim; c += 2)
    for (int64_t row = 0; row < kPanel; ++row) {
      E* pair = to + c * kPanel + 2 * row;
      pair[0] = row < count ? E{from[row][c]} : E{};
      pair[1] = row < count && c + 1 < dim ? E{from[row][c + 1]} : E{};
    }
  std::fill_n(to + c * kPanel, (whole_steps<E>(dim) - c) * kPanel, E{});
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
