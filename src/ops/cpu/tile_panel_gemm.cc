// How a product is cut. c is computed in blocks of 32 x 32 f32, four tile registers; a step of k (32 elements) of a
// block loads two tiles of a and two of b for four TDPBF16PS. Both operands are packed: a strip of 32 rows of a, or a
// panel of 32 columns of b, is two tiles of 1 KiB per step, in the order in which a block loads them, with zeros up to
// complete tiles. Panels are packed once per call, by all threads for all, kTileSharedBytes at a time; each thread
// packs strips of its rows of c, kTileBlockBytes at a time, and meets all its panels with them.
//
// Counts that the sizes follow from (not measured: written without a CPU that has AMX). Four TDPBF16PS take 64 cycles,
// four TILELOADD of 16 lines at least 32 from the first-level cache: one load per product is what it can feed.
// - A second-level cache gives about 48 bytes a cycle, so 4 KiB a step, 64 bytes a cycle, are too many from there: of a
//   panel, kTileSteps steps (32 KiB) stay in the first level (48 KiB) while all strips pass by, 32 bytes a cycle. Sums
//   of 4 KiB are read and written once per kTileSteps steps: 8 more.
// - Beyond the second level: a panel's step, 2 KiB, serves up to 16 strips of 64 cycles, 2 bytes a cycle; c of a weight
//   gradient is read and written once per kTileChunk steps (1024 rows), 4 bytes a cycle; c of the other products, in
//   bf16, once, because their k is not cut.
// - Packing a strip costs its elements about a third of a cycle each where they are transposed; with 768 columns of c
//   an element is multiplied for 1.5 cycles.
//
// Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter on AMX: blocks of 2 x 2 tiles.

#include "ops/cpu/tile_panel_gemm.h"

#include "ops/cpu/highway_targets.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/tile_cut.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/tile_panel_gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

constexpr int64_t kTileElements = tiles::kRows * tiles::kSteps;
constexpr int64_t kStepElements = 2 * kTileElements;
static_assert(kStepElements * int64_t{sizeof(bf16_t)} == kTileStepBytes);

/// One operand of a product: `count` rows of a or columns of b, `k` elements each.
template <class T>
struct Operand {
  const T* data = nullptr;
  int64_t stride = 0;      ///< elements between the rows of the matrix
  bool k_in_rows = false;  ///< its rows are elements of k; else they run along k
  int64_t count = 0, k = 0;
};

/// The operands of both products on one side.
template <class T>
struct BothOperands {
  Operand<T> first, also;
  int64_t first_steps;
};

/// to [16, 32] = a tile of a matrix whose rows run along k: `rows` rows, `elements` of k, then zeros.
template <class T, class E>
HWY_INLINE void copy_tile(const T* from, int64_t stride, int64_t rows, int64_t elements, E* to) {
  for (int64_t r = 0; r < tiles::kRows; ++r, to += tiles::kSteps) {
    const auto bytes = static_cast<size_t>(r < rows ? elements : 0) * sizeof(T);
    if (bytes == tiles::kRowBytes) {
      std::memcpy(to, from + r * stride, tiles::kRowBytes);
    } else {
      std::fill_n(to, tiles::kSteps, E{});
      std::memcpy(to, from + r * stride, bytes);
    }
  }
}

/// to [16, 16] = from [16, 16] transposed, in units of two elements.
template <class T, class E>
HWY_INLINE void transpose_tile(const T* from, int64_t stride, E* to) {
  const auto load_at = [&](int64_t row, int64_t c) HWY_ATTR {
    return hn::LoadU(TagU32(), reinterpret_cast<const uint32_t*>(from + row * stride) + c);
  };
  const auto store_at = [&](int64_t c, int64_t row, VecU32 v) HWY_ATTR {
    hn::StoreU(v, TagU32(), reinterpret_cast<uint32_t*>(to) + c * tiles::kColumns + row);
  };
  transpose_whole_vectors(tiles::kRows, tiles::kRows, tiles::kColumns, load_at, store_at);
}

/// to = the tile of rows or columns from `at` on, which may be past the last, and of the elements of k from k0 on. A
/// left tile is [16 rows, 32 elements], a right one [16 pairs of elements, 16 columns, 2].
template <bool kLeft, class T, class E>
HWY_INLINE void pack_tile(const Operand<T>& o, int64_t at, int64_t k0, E* to) {
  HWY_ALIGN E between[kTileElements];
  const int64_t count = std::clamp<int64_t>(o.count - at, 0, tiles::kRows),
                elements = std::min(tiles::kSteps, o.k - k0);
  if (count == 0) {
    std::fill_n(to, kTileElements, E{});
  } else if (o.k_in_rows) {
    copy_steps(Rows<const T>{o.data + k0 * o.stride + at, o.stride}, elements, count, kLeft ? between : to,
               tiles::kColumns);
    if (kLeft) transpose_tile(between, tiles::kSteps, to);
  } else {
    const T* from = o.data + at * o.stride + k0;
    if (kLeft) return copy_tile(from, o.stride, count, elements, to);
    if (count == tiles::kRows && elements == tiles::kSteps) return transpose_tile(from, o.stride, to);
    copy_tile(from, o.stride, count, elements, between);
    transpose_tile(between, tiles::kSteps, to);
  }
}

/// Strips or panels [blocks], counted from `blocks.begin` in `to`, for some steps of k.
template <bool kLeft, class T, class E>
HWY_INLINE void pack_blocks(const BothOperands<T>& operands, Range blocks, Range steps, E* to) {
  const int64_t count = steps.end - steps.begin;
  const auto pack = [&](int64_t block, int64_t step) HWY_ATTR {
    E* tile = to + ((block - blocks.begin) * count + step - steps.begin) * kStepElements;
    const bool first = step < operands.first_steps;
    const Operand<T>& o = first ? operands.first : operands.also;
    const int64_t at = block * kTileBlock, k0 = (first ? step : step - operands.first_steps) * tiles::kSteps;
    pack_tile<kLeft>(o, at, k0, tile);
    pack_tile<kLeft>(o, at + tiles::kRows, k0, tile + kTileElements);
  };
  if (operands.first.k_in_rows)  // in the order of memory
    for (int64_t step = steps.begin; step < steps.end; ++step)
      for (int64_t block = blocks.begin; block < blocks.end; ++block) pack(block, step);
  else
    for (int64_t block = blocks.begin; block < blocks.end; ++block)
      for (int64_t step = steps.begin; step < steps.end; ++step) pack(block, step);
}

template <class T>
BothOperands<T> left_operands(const PanelProduct& p, const TileCut& cut) {
  const GemmSizes s = sizes_of(p.shape);
  const bool weight = p.shape.kind == GemmKind::weight;
  BothOperands<T> both{.first = {p.a.as<T>(),
                                 p.strides.a > 0 ? p.strides.a
                                 : weight        ? s.m
                                                 : s.k,
                                 weight, s.m, s.k},
                       .also = {},
                       .first_steps = cut.first_steps};
  if (!p.also_a.empty()) both.also = {p.also_a.as<T>(), p.also_a.shape()[1], false, s.m, p.also_a.shape()[1]};
  return both;
}

template <class T>
BothOperands<T> right_operands(const PanelProduct& p, const TileCut& cut) {
  const GemmSizes s = sizes_of(p.shape);
  const bool k_in_rows = p.shape.kind != GemmKind::forward;
  BothOperands<T> both{
      .first = {p.b.as<T>(), k_in_rows ? s.n : s.k, k_in_rows, s.n, s.k}, .also = {}, .first_steps = cut.first_steps};
  if (!p.also_b.empty()) {
    const int64_t also_k = p.also_a.shape()[1];
    both.also = {p.also_b.as<T>(), k_in_rows ? s.n : also_k, k_in_rows, s.n, also_k};
  }
  return both;
}

/// Source and destination of a block's sums.
struct BlockSums {
  const float* before;  ///< nullptr: zeros
  int64_t before_stride;
  float* out;
  int64_t stride;
};

/// Registers 0 to 3 hold the sums, two rows of two; 4 and 5 the strip's rows, 6 and 7 the panel's columns.
template <class E>
HWY_NOINLINE void multiply_block(int64_t steps, const E* a, const E* b, const BlockSums& sums) {
  const int64_t right = tiles::kColumns;
  if (sums.before != nullptr) {
    const int64_t stride = sums.before_stride * int64_t{sizeof(float)};
    const float* below = sums.before + tiles::kRows * sums.before_stride;
    tiles::load<0>(sums.before, stride);
    tiles::load<1>(sums.before + right, stride);
    tiles::load<2>(below, stride);
    tiles::load<3>(below + right, stride);
  } else {
    tiles::zero<0>();
    tiles::zero<1>();
    tiles::zero<2>();
    tiles::zero<3>();
  }
  for (int64_t step = 0; step < steps; ++step, a += kStepElements, b += kStepElements) {
    tiles::load<6>(b, tiles::kRowBytes);
    tiles::load<4>(a, tiles::kRowBytes);
    tiles::multiply_add<0, 4, 6>();
    tiles::load<7>(b + kTileElements, tiles::kRowBytes);
    tiles::multiply_add<1, 4, 7>();
    tiles::load<5>(a + kTileElements, tiles::kRowBytes);
    tiles::multiply_add<2, 5, 6>();
    tiles::multiply_add<3, 5, 7>();
  }
  const int64_t stride = sums.stride * int64_t{sizeof(float)};
  float* below = sums.out + tiles::kRows * sums.stride;
  tiles::store<0>(sums.out, stride);
  tiles::store<1>(sums.out + right, stride);
  tiles::store<2>(below, stride);
  tiles::store<3>(below + right, stride);
}

/// All tiles complete while it exists.
class WholeTiles {
 public:
  WholeTiles() {
    tiles::Shapes shapes;
    std::fill_n(shapes.rows, tiles::kRegisters, uint8_t{tiles::kRows});
    std::fill_n(shapes.row_bytes, tiles::kRegisters, uint16_t{tiles::kRowBytes});
    tiles::configure(shapes);
  }
  ~WholeTiles() { tiles::release(); }
  WholeTiles(const WholeTiles&) = delete;
  WholeTiles& operator=(const WholeTiles&) = delete;
};

/// A rectangle of c, for some steps of k whose panels are packed.
template <class T, class Out>
HWY_INLINE void multiply_rectangle(const PanelProduct& p, const TileCut& cut, Range steps, Range strips, Range panels,
                                   int64_t first_panel, const void* packed, void* scratch) {
  using E = tile_of<T>;
  constexpr bool kF32 = std::is_same_v<Out, float>;
  constexpr int64_t kSums = kTileBlock * kTileBlock;
  const GemmSizes size = sizes_of(p.shape);
  const int64_t c_stride = p.strides.c > 0 ? p.strides.c : size.n, count = steps.end - steps.begin;
  const bool adds = steps.begin > 0 || p.accumulate;
  E* const block = static_cast<E*>(scratch);
  float* const sums = reinterpret_cast<float*>(block + cut.strips_at_once * cut.chunk * kStepElements);
  const BothOperands<T> left = left_operands<T>(p, cut);
  HWY_ALIGN float bias[kTileBlock];
  const WholeTiles whole;
  for (int64_t first = strips.begin; first < strips.end; first += cut.strips_at_once) {
    const int64_t end = std::min(strips.end, first + cut.strips_at_once);
    pack_blocks<true>(left, {first, end}, steps, block);
    for (int64_t j = panels.begin; j < panels.end; ++j) {
      const E* const panel = static_cast<const E*>(packed) + (j - first_panel) * count * kStepElements;
      const int64_t column = j * kTileBlock, columns = std::min(kTileBlock, size.n - column);
      if (!p.bias.empty()) {
        std::fill_n(bias, kTileBlock, 0.0f);
        for (int64_t i = 0; i < columns; ++i) bias[i] = to_float(p.bias.as<bf16_t>()[column + i]);
      }
      for (int64_t step = 0; step < count; step += cut.steps_at_once) {
        const int64_t some = std::min(cut.steps_at_once, count - step);
        const bool begins = step == 0, ends = step + some == count;
        for (int64_t s = first; s < end; ++s) {
          const int64_t rows = std::min(kTileBlock, size.m - s * kTileBlock);
          const bool in_place = kF32 && rows == kTileBlock && columns == kTileBlock;
          Out* const c = p.c.as<Out>() + s * kTileBlock * c_stride + column;
          float* const own = sums + (s - first) * kSums;
          BlockSums at{own, kTileBlock, own, kTileBlock};
          if (begins) {
            if (p.bias.empty())
              at.before = nullptr;
            else
              at.before = bias, at.before_stride = 0;
          }
          if constexpr (kF32) {
            if (begins && adds && in_place) {
              at.before = c, at.before_stride = c_stride;
              for (int64_t r = 0; s + 1 < end && r < kTileBlock; ++r) {
                __builtin_prefetch(c + (kTileBlock + r) * c_stride);
                __builtin_prefetch(c + (kTileBlock + r) * c_stride + tiles::kColumns);
              }
            } else if (begins && adds) {
              std::fill_n(own, kSums, 0.0f);
              for (int64_t r = 0; r < rows; ++r) std::copy_n(c + r * c_stride, columns, own + r * kTileBlock);
              at.before = own;
              at.before_stride = kTileBlock;
            }
            if (ends && in_place) at.out = c, at.stride = c_stride;
          }
          multiply_block(some, block + ((s - first) * count + step) * kStepElements, panel + step * kStepElements, at);
          if (!ends || in_place) continue;
          for (int64_t r = 0; r < rows; ++r)
            for_each_vector(columns, [&](int64_t i, auto lanes) HWY_ATTR {
              store(hn::LoadU(TagF32(), own + r * kTileBlock + i), c + r * c_stride + i, lanes);
            });
        }
      }
    }
  }
}

/// f(T()): the type of bf16 as this CPU rounds to it.
template <class F>
HWY_INLINE void with_bf16(F&& f) {
  with_element(DType::bf16, [&](auto element) HWY_ATTR {
    if constexpr (is_bf16<decltype(element)>) f(element);
  });
}

void pack_panels_any(const PanelProduct& p, const TileCut& cut, Range steps, Range panels, void* to) {
  with_bf16([&](auto element) HWY_ATTR {
    using T = decltype(element);
    pack_blocks<false>(right_operands<T>(p, cut), panels, steps, static_cast<tile_of<T>*>(to));
  });
}

void multiply_rectangle_any(const PanelProduct& p, const TileCut& cut, Range steps, Range strips, Range panels,
                            int64_t first_panel, const void* packed, void* scratch) {
  with_bf16([&](auto element) HWY_ATTR {
    using T = decltype(element);
    if (p.c.dtype() == DType::f32)
      multiply_rectangle<T, float>(p, cut, steps, strips, panels, first_panel, packed, scratch);
    else
      multiply_rectangle<T, T>(p, cut, steps, strips, panels, first_panel, packed, scratch);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {
HWY_EXPORT(pack_panels_any);
HWY_EXPORT(multiply_rectangle_any);

bool has_tiles(const GemmShape& shape) { return shape.dtype == DType::bf16 && multiplies_tiles(); }

void multiply_tiles(Context& context, const PanelProduct& p) {
  const ArenaScope scope(*context.scratch);
  const TileCut cut(p.shape, context.threads, p.also_a.empty() ? 0 : p.also_a.shape()[1]);
  const View scratch = context.scratch->take(DType::u8, {context.threads, cut.own_bytes}),
             packed = context.scratch->take(DType::u8, {cut.shared_bytes});
  auto* const shared = static_cast<char*>(packed.data());
  for (int64_t first = 0; first < cut.panels; first += cut.panels_at_once)
    for (int64_t step = 0; step < cut.steps; step += cut.chunk) {
      const Range steps{step, std::min(cut.steps, step + cut.chunk)};
      for_each_part(
          context.threads,
          [&](int part) {
            const Range own = share_of(std::min(cut.panels_at_once, cut.panels - first), part, context.threads);
            HWY_DYNAMIC_DISPATCH(pack_panels_any)
            (p, cut, steps, {first + own.begin, first + own.end},
             shared + own.begin * (steps.end - steps.begin) * kTileStepBytes);
          },
          [&](int part) {
            const auto [strips, panels] = cut.of(part, first);
            if (strips.begin < strips.end && panels.begin < panels.end) HWY_DYNAMIC_DISPATCH(multiply_rectangle_any)
            (p, cut, steps, strips, panels, first, shared, scratch.rows_slice(part, 1).data());
          });
    }
}

size_t tile_scratch_bytes(int64_t rows, int64_t inputs, int64_t outputs, int threads, int64_t also) {
  const auto steps = [](int64_t k) { return TileCut::parts(k, tiles::kSteps); };
  const auto blocks = [](int64_t n) { return TileCut::parts(n, kTileBlock); };
  const int64_t longest = std::max(inputs, outputs);
  const auto most = [&](int64_t m, int64_t chunk) {
    const int64_t strips = blocks(m), bytes = chunk * kTileStepBytes;
    const int64_t own = std::min(std::max(kTileBlockBytes, bytes), strips * bytes) +
                        std::min(strips, kTileStrips) * TileCut::kSumsBytes;
    const int64_t shared = std::max(bytes, std::min(kTileSharedBytes, blocks(longest) * bytes));
    return threads * own + shared;
  };
  return static_cast<size_t>(
             std::max(most(rows, steps(longest) + steps(also)), most(longest, std::min(steps(rows), kTileChunk)))) +
         2 * 64;  // each tensor starts on a cache line
}

}  // namespace trireme
#endif
