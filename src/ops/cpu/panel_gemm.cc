// How a product is cut. Forward and input products: each thread has a rectangle of c; of its columns 64 at a time are
// packed (a panel, at most kPanelBytes: longer ones in chunks of k) and meet all of its rows, six at a time, which are
// read in place. Weight gradients: both operands have k as rows, so both are packed, kChunkBytes of k at a time: b by
// all threads for all, a by each thread in blocks of kBlockRows of c.
//
// Zen 5, 2 cores (1040 GFLOP/s of VDPBF16PS, 520 of FMA), GFLOP/s with packing, compared with oneDNN 2.6.3:
// bench/results/2026-11-24-panels.md.

#include "ops/cpu/panel_gemm.h"

#include "ops/cpu/highway_targets.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/panel_cut.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/panel_gemm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/operands-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

static_assert(kPanel == kPanelColumns && kTileRows == kStripRows);
constexpr int64_t kStripsAtOnce = 64;  ///< of a that are packed at a time

/// Of a packed strip: [steps, kTileRows], and a cache line in which the vectors that it is written with end.
template <class E>
HWY_INLINE int64_t strip_elements(int64_t steps) {
  return steps * kTileRows * kStep<E> + kStripEnd / int64_t{sizeof(E)};
}

/// Layout of a: strips of kTileRows rows, whose steps of k are `step` elements apart.
template <class E>
struct Strips {
  const E* data;
  int64_t strip, row, step;    ///< elements between strips, rows, steps
  int64_t line, line_of_step;  ///< elements between the cache lines of kGroup steps; between those of two groups

  /// Rows of a matrix in place.
  static Strips in_place(const E* data, int64_t stride) {
    return {data, kTileRows * stride, stride, kStep<E>, stride, kGroup * kStep<E>};
  }
  /// [steps, kTileRows] for each strip.
  static Strips packed(const E* data, int64_t steps) {
    constexpr int64_t kLine = 64 / sizeof(E);
    return {data, strip_elements<E>(steps), kStep<E>, kTileRows * kStep<E>, kLine, kTileRows * kLine};
  }
  const E* at(int64_t i) const { return data + i * strip; }

  static constexpr int64_t kGroup = 16;  ///< steps that a line of a row has
};

/// Memory that will be read: `rows` pieces of `lines` cache lines, `stride` bytes apart. Each tile asks for some.
class Source {
 public:
  Source() = default;
  Source(const void* data, int64_t rows, int64_t lines, int64_t stride, int64_t tiles)
      : row_(static_cast<const char*>(data)),
        lines_(lines),
        stride_(stride),
        left_(rows * lines),
        each_((left_ + tiles - 1) / tiles) {}

  HWY_INLINE void ask() {
    const int64_t end = left_ - std::min(left_, each_);
    for (; left_ > end; --left_) {
      __builtin_prefetch(row_ + line_ * 64, 0, 2);
      if (++line_ < lines_) continue;
      line_ = 0;
      row_ += stride_;
    }
  }

 private:
  const char* row_ = nullptr;
  int64_t lines_ = 0, stride_ = 0, left_ = 0, each_ = 0, line_ = 0;
};

/// Source and destination of a tile's sums.
template <class Out>
struct Sums {
  const float* before;  ///< nullptr: zeros
  int64_t before_stride;
  Out* out;
  int64_t stride;
};

/// What a tile adds of a second product: rows of its a in place, and its panel.
template <class E>
struct Also {
  const E* strip = nullptr;
  int64_t row = 0, steps = 0;  ///< elements between rows; 0 steps: no second product
  const E* b = nullptr;
  Also from(int64_t column) const { return {strip, row, steps, b + column * kStep<E>}; }
};

/// c.out [kTileRows, kVectors vectors] = c.before + a strip of a times columns of a panel b [steps, kPanel] + `also`.
/// next: the following strip.
template <int kVectors, class E, class Out>
HWY_NOINLINE void panel_tile(int64_t steps, const Strips<E>& a, const E* strip, const E* next, const E* HWY_RESTRICT b,
                             const Also<E>& also, const Sums<Out>& c) {
  constexpr int64_t kGroup = Strips<E>::kGroup;
  VecF32 sums[kTileRows][kVectors];
#pragma GCC unroll 8
  for (int m = 0; m < kTileRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[m][v] = hn::Zero(TagF32());
  for (int64_t k = 0; k < steps; k += kGroup) {
    const int64_t group = k / kGroup;
#pragma GCC unroll 8
    for (int m = 0; m < kTileRows; ++m) __builtin_prefetch(next + m * a.line + group * a.line_of_step);
    if (c.before != nullptr && group < kTileRows)
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(c.before + group * c.before_stride + v * kLanes);
    add_steps(sums, std::min(kGroup, steps - k), strip + k * a.step, a.row, a.step, b + k * kPanel * kStep<E>, kPanel);
  }
  if (also.steps > 0) add_steps(sums, also.steps, also.strip, also.row, kStep<E>, also.b, kPanel);
#pragma GCC unroll 8
  for (int m = 0; m < kTileRows; ++m)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      if (c.before != nullptr)
        sums[m][v] = hn::Add(load(c.before + m * c.before_stride + v * kLanes, AllLanes{}), sums[m][v]);
      store(sums[m][v], c.out + m * c.stride + v * kLanes, AllLanes{});
    }
}

/// The first columns of a panel: a multiple of kLanes.
template <class E, class Out>
HWY_INLINE void panel_tiles(int64_t columns, int64_t steps, const Strips<E>& a, const E* strip, const E* next,
                            const E* b, const Also<E>& also, const Sums<Out>& c) {
  constexpr int64_t kAtOnce = kTileVectors * kLanes;
  static_assert(kPanel % kAtOnce == 0);
  for (int64_t i = 0; i < columns;) {
    const Sums<Out> part{c.before != nullptr ? c.before + i : nullptr, c.before_stride, c.out + i, c.stride};
    const int64_t left = columns - i;
    if (left >= kAtOnce) {
      panel_tile<kTileVectors>(steps, a, strip, next, b + i * kStep<E>, also.from(i), part);
      i += kAtOnce;
    } else if (left >= 2 * kLanes) {
      panel_tile<2>(steps, a, strip, next, b + i * kStep<E>, also.from(i), part);
      i += 2 * kLanes;
    } else {
      panel_tile<1>(steps, a, strip, next, b + i * kStep<E>, also.from(i), part);
      i += kLanes;
    }
  }
}

/// The part of a tile that is inside c, through a complete tile.
template <class E, class Out>
HWY_NOINLINE void edge_tiles(int64_t steps, const Strips<E>& a, const E* strip, const E* b, const Also<E>& also,
                             const Sums<Out>& c, int64_t rows, int64_t columns) {
  HWY_ALIGN float before[kTileRows * kPanel] = {}, end[kTileRows * kPanel];
  if (c.before != nullptr)
    for (int64_t m = 0; m < rows; ++m) std::copy_n(c.before + m * c.before_stride, columns, before + m * kPanel);
  const int64_t whole = (columns + kLanes - 1) / kLanes * kLanes;
  panel_tiles(whole, steps, a, strip, strip, b, also, Sums<float>{before, kPanel, end, kPanel});
  for (int64_t m = 0; m < rows; ++m)
    for_each_vector(columns, [&](int64_t i, auto lanes) HWY_ATTR {
      store(hn::Load(TagF32(), end + m * kPanel + i), c.out + m * c.stride + i, lanes);
    });
}

/// Rows [first, first + count) of a tile's strip, count below kTileRows, with zeros after: to [kTileRows, steps].
template <class E>
HWY_INLINE void copy_last_rows(Rows<const E> from, int64_t count, int64_t elements, E* to) {
  for (int64_t m = 0; m < kTileRows; ++m) {
    if (m < count)
      std::copy_n(from[m], elements, to + m * elements);
    else
      std::fill_n(to + m * elements, elements, E{});
  }
}

/// Forward and input products: a rectangle of c.
template <class E, class Out>
HWY_INLINE void multiply_rows(const PanelProduct& p, const PanelCut& cut, Range strips, Range panels, void* scratch) {
  const GemmSizes size = sizes_of(p.shape);
  const int64_t m = size.m, n = size.n, k = size.k;
  const bool forward = p.shape.kind == GemmKind::forward;
  const int64_t a_stride = p.strides.a > 0 ? p.strides.a : k, c_stride = p.strides.c > 0 ? p.strides.c : n;
  const int64_t count = strips.end - strips.begin;
  E* panel = static_cast<E*>(scratch);
  E* also_panel = panel + cut.chunk * kPanel;
  E* last_rows = also_panel + cut.also * kPanel;
  E* also_last_rows = last_rows + kTileRows * cut.chunk;
  // Sums of chunks, where c cannot hold them.
  float* const sums = std::is_same_v<Out, float> || cut.chunk >= k
                          ? nullptr
                          : reinterpret_cast<float*>(also_last_rows + kTileRows * cut.also);
  const int64_t also_k = p.also_a.empty() ? 0 : p.also_a.shape()[1];
  HWY_ALIGN float bias[kPanel];
  const auto source_of = [&](int64_t j, int64_t k0) HWY_ATTR {
    const int64_t columns = std::min(kPanel, n - j * kPanel), steps = std::min(cut.chunk, k - k0);
    const auto lines = [](int64_t elements) HWY_ATTR { return (elements * int64_t{sizeof(E)} + 63) / 64; };
    const E* b = p.b.as<E>();
    constexpr int64_t kSize = sizeof(E);
    return forward ? Source(b + j * kPanel * k + k0, columns, lines(steps), k * kSize, count)
                   : Source(b + k0 * n + j * kPanel, steps, lines(columns), n * kSize, count);
  };
  for (int64_t j = panels.begin; j < panels.end; ++j) {
    const int64_t column = j * kPanel, columns = std::min(kPanel, n - column);
    if (!p.bias.empty()) {
      std::fill_n(bias, kPanel, 0.0f);
      for (int64_t i = 0; i < columns; ++i) bias[i] = as_float(p.bias.as<E>()[column + i]);
    }
    for (int64_t k0 = 0; k0 < k; k0 += cut.chunk) {
      const int64_t elements = std::min(cut.chunk, k - k0), steps = elements / kStep<E>;
      const bool first = k0 == 0, last = k0 + elements == k;
      if (forward)
        transpose_rows(Rows<const E>{p.b.as<E>() + column * k + k0, k}, columns, elements, panel);
      else
        copy_steps(Rows<const E>{p.b.as<E>() + k0 * n + column, n}, elements, columns, panel, kPanel);
      const bool adds = also_k > 0 && last;
      if (adds && forward)
        transpose_rows(Rows<const E>{p.also_b.as<E>() + column * also_k, also_k}, columns, also_k, also_panel);
      else if (adds)
        copy_steps(Rows<const E>{p.also_b.as<E>() + column, n}, also_k, columns, also_panel, kPanel);
      Source next = !last ? source_of(j, k0 + elements) : j + 1 < panels.end ? source_of(j + 1, 0) : Source{};
      const Strips<E> rows = Strips<E>::in_place(p.a.as<E>() + k0, a_stride);
      const auto tiles = [&](int64_t s, auto c) HWY_ATTR {
        const int64_t valid = std::min<int64_t>(kTileRows, m - s * kTileRows);
        next.ask();
        Also<E> also;
        if (adds) also = {p.also_a.as<E>() + s * kTileRows * also_k, also_k, also_k / kStep<E>, also_panel};
        if (valid < kTileRows) {
          copy_last_rows(Rows<const E>{rows.at(s), a_stride}, valid, elements, last_rows);
          if (adds) {
            copy_last_rows(Rows<const E>{also.strip, also_k}, valid, also_k, also_last_rows);
            also.strip = also_last_rows;
          }
          edge_tiles(steps, Strips<E>::in_place(last_rows, elements), last_rows, panel, also, c, valid, columns);
        } else if (columns % kLanes != 0) {
          edge_tiles(steps, rows, rows.at(s), panel, also, c, valid, columns);
        } else {
          const bool more = s + 1 < strips.end && (s + 2) * kTileRows <= m;
          panel_tiles(columns, steps, rows, rows.at(s), rows.at(more ? s + 1 : strips.begin), panel, also, c);
        }
      };
      for (int64_t s = strips.begin; s < strips.end; ++s) {
        float* const own = sums != nullptr ? sums + (s - strips.begin) * kTileRows * kPanel : nullptr;
        Out* const c = p.c.as<Out>() + s * kTileRows * c_stride + column;
        const float* before = first ? (p.bias.empty() ? nullptr : bias) : own;
        int64_t before_stride = first ? 0 : kPanel;
        if constexpr (std::is_same_v<Out, float>) {
          if (!first || p.accumulate) before = c, before_stride = c_stride;
        } else if (!last) {
          tiles(s, Sums<float>{before, before_stride, own, kPanel});
          continue;
        }
        tiles(s, Sums<Out>{before, before_stride, c, c_stride});
      }
    }
  }
}

/// to [columns] = one step of k of columns of `from`, whose rows are elements of k: `row` and, of bf16, the next one,
/// where there is one. A row has `readable` columns, followed by zeros.
template <class E>
HWY_INLINE void copy_step(Rows<const E> from, int64_t row, int64_t elements, int64_t columns, int64_t readable,
                          uint32_t* to) {
  constexpr int64_t kAhead = 16 * kStep<E>;  // rows
  const TagU32 d;
  for (int64_t c = 0; c < columns; c += kLanes) {
    for (int64_t i = 0; i < kStep<E>; ++i) __builtin_prefetch(from[row + kAhead + i] + c);
    VecU32 units[kStep<E>];
    for (int64_t i = 0; i < kStep<E>; ++i) {
      const VecF32 v = row + i >= elements      ? hn::Zero(TagF32())
                       : c + kLanes <= readable ? load(from[row + i] + c, AllLanes{})
                       : c < readable           ? load(from[row + i] + c, readable - c)
                                                : hn::Zero(TagF32());
      units[i] = hn::BitCast(d, v);
    }
    if constexpr (is_bf16<E>) units[0] = hn::Or(hn::ShiftRight<16>(units[0]), units[1]);
    hn::StoreU(units[0], d, to + c);
  }
}

/// `strips` strips, at most kStripsAtOnce; the other arguments as of copy_step().
template <class E>
HWY_INLINE void pack_strips(Rows<const E> from, int64_t elements, int64_t strips, int64_t readable, E* to) {
  constexpr int64_t kSteps = 8;  // at a time: complete cache lines are read from a row and written to a strip
  constexpr int64_t kColumns = kStripsAtOnce * kTileRows + kLanes;
  HWY_ALIGN uint32_t rows[kSteps * kColumns + kLanes];
  const TagU32 d;
  const int64_t steps = (elements + kStep<E> - 1) / kStep<E>;
  for (int64_t k0 = 0; k0 < steps; k0 += kSteps) {
    const int64_t count = std::min(kSteps, steps - k0);
    for (int64_t k = 0; k < count; ++k)
      copy_step(from, (k0 + k) * kStep<E>, elements, strips * kTileRows, readable, rows + k * kColumns);
    for (int64_t s = 0; s < strips; ++s) {
      auto* strip = reinterpret_cast<uint32_t*>(to + s * strip_elements<E>(steps)) + k0 * kTileRows;
      for (int64_t k = 0; k < count; ++k)
        for (int64_t m = 0; m < kTileRows; m += kLanes)
          hn::StoreU(hn::LoadU(d, rows + k * kColumns + s * kTileRows + m), d, strip + k * kTileRows + m);
    }
  }
}

/// Weight gradients: packs panel j of b for the elements of k from k0 on, after those from first_panel on.
template <class E>
HWY_INLINE void pack_panel(const PanelProduct& p, const PanelCut& cut, int64_t k0, int64_t first_panel, int64_t j,
                           void* packed) {
  const auto [m, n, k] = sizes_of(p.shape);
  const int64_t elements = std::min(cut.chunk, k - k0), steps = (elements + kStep<E> - 1) / kStep<E>;
  E* to = static_cast<E*>(packed) + (j - first_panel) * steps * kStep<E> * kPanel;
  copy_steps(Rows<const E>{p.b.as<E>() + k0 * n + j * kPanel, n}, elements, std::min(kPanel, n - j * kPanel), to,
             kPanel);
}

/// Weight gradients: a rectangle of c, for the elements of k from k0 on, whose b is packed.
template <class E>
HWY_INLINE void multiply_columns(const PanelProduct& p, const PanelCut& cut, int64_t k0, Range strips, Range panels,
                                 int64_t first_panel, const void* packed, void* scratch) {
  const auto [m, n, k] = sizes_of(p.shape);
  const int64_t a_stride = p.strides.a > 0 ? p.strides.a : m, c_stride = p.strides.c > 0 ? p.strides.c : n;
  const int64_t elements = std::min(cut.chunk, k - k0), steps = (elements + kStep<E> - 1) / kStep<E>;
  const int64_t panel_elements = steps * kStep<E> * kPanel;
  const bool adds = k0 > 0 || p.accumulate;
  for (int64_t first = strips.begin; first < strips.end; first += kBlockStrips) {
    const int64_t end = std::min(strips.end, first + kBlockStrips);
    E* block = static_cast<E*>(scratch);
    for (int64_t i = first; i < end; i += kStripsAtOnce)
      pack_strips(Rows<const E>{p.a.as<E>() + k0 * a_stride + i * kTileRows, a_stride}, elements,
                  std::min(kStripsAtOnce, end - i), m - i * kTileRows, block + (i - first) * strip_elements<E>(steps));
    const Strips<E> a = Strips<E>::packed(block, steps);
    for (int64_t j = panels.begin; j < panels.end; ++j) {
      const E* b = static_cast<const E*>(packed) + (j - first_panel) * panel_elements;
      Source next;
      if (j + 1 < panels.end)
        next = Source(b + panel_elements, 1, panel_elements * int64_t{sizeof(E)} / 64, 0, end - first);
      const int64_t columns = std::min(kPanel, n - j * kPanel);
      for (int64_t s = first; s < end; ++s) {
        const int64_t valid = std::min<int64_t>(kTileRows, m - s * kTileRows);
        float* const c = p.c.as<float>() + s * kTileRows * c_stride + j * kPanel;
        const Sums<float> sums{adds ? c : nullptr, c_stride, c, c_stride};
        const E* strip = a.at(s - first);
        next.ask();
        if (valid == kTileRows && columns % kLanes == 0)
          panel_tiles(columns, steps, a, strip, s + 1 < end ? a.at(s + 1 - first) : block, b, Also<E>{}, sums);
        else
          edge_tiles(steps, a, strip, b, Also<E>{}, sums, valid, columns);
      }
    }
  }
}

/// f(E()): the element type of operands.
template <class F>
HWY_INLINE void with_panel_element(DType dtype, F&& f) {
  if constexpr (kCanHaveDots)
    if (dtype == DType::bf16) return f(native_bf16_t());
  f(float());
}

void multiply_rows_any(const PanelProduct& p, const PanelCut& cut, Range strips, Range panels, void* scratch) {
  with_panel_element(p.shape.dtype, [&](auto element) HWY_ATTR {
    using E = decltype(element);
    if (p.c.dtype() == DType::f32) return multiply_rows<E, float>(p, cut, strips, panels, scratch);
    if constexpr (is_bf16<E>) multiply_rows<E, E>(p, cut, strips, panels, scratch);
  });
}

void pack_panel_any(const PanelProduct& p, const PanelCut& cut, int64_t k0, int64_t first_panel, int64_t j,
                    void* packed) {
  with_panel_element(p.shape.dtype,
                     [&](auto element) HWY_ATTR { pack_panel<decltype(element)>(p, cut, k0, first_panel, j, packed); });
}

void multiply_columns_any(const PanelProduct& p, const PanelCut& cut, int64_t k0, Range strips, Range panels,
                          int64_t first_panel, const void* packed, void* scratch) {
  with_panel_element(p.shape.dtype, [&](auto element) HWY_ATTR {
    multiply_columns<decltype(element)>(p, cut, k0, strips, panels, first_panel, packed, scratch);
  });
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {
HWY_EXPORT(multiply_rows_any);
HWY_EXPORT(pack_panel_any);
HWY_EXPORT(multiply_columns_any);

namespace {

View part_of(View scratch, int part) { return scratch.rows_slice(part, 1); }

void multiply_forward_or_input(Context& context, const PanelProduct& p, const PanelCut& cut) {
  const View scratch = context.scratch->take(DType::u8, {context.threads, cut.own_bytes});
  for_each_part(context.threads, [&](int part) {
    const auto [strips, panels] = cut.of(part, 0);
    if (strips.begin < strips.end && panels.begin < panels.end)
      HWY_DYNAMIC_DISPATCH(multiply_rows_any)(p, cut, strips, panels, part_of(scratch, part).data());
  });
}

void multiply_weight(Context& context, const PanelProduct& p, const PanelCut& cut) {
  const GemmSizes sizes = sizes_of(p.shape);
  const View scratch = context.scratch->take(DType::u8, {context.threads, cut.own_bytes}),
             packed = context.scratch->take(DType::u8, {cut.shared_bytes});
  for (int64_t first = 0; first < cut.panels; first += cut.panels_at_once)
    for (int64_t k0 = 0; k0 < sizes.k; k0 += cut.chunk)
      for_each_part(
          context.threads,
          [&](int part) {
            const int64_t count = std::min(cut.panels_at_once, cut.panels - first);
            const Range own = share_of(count, part, context.threads);
            for (int64_t j = own.begin; j < own.end; ++j)
              HWY_DYNAMIC_DISPATCH(pack_panel_any)(p, cut, k0, first, first + j, packed.data());
          },
          [&](int part) {
            const auto [strips, panels] = cut.of(part, first);
            if (strips.begin < strips.end && panels.begin < panels.end) HWY_DYNAMIC_DISPATCH(multiply_columns_any)
            (p, cut, k0, strips, panels, first, packed.data(), part_of(scratch, part).data());
          });
}

}  // namespace

bool has_panels(const GemmShape& shape) {
  if (shape.dtype == DType::f32) return true;
  return multiplies_pairs() && (shape.kind == GemmKind::weight || sizes_of(shape).k % 2 == 0);
}

void multiply_panels(Context& context, const PanelProduct& p) {
  const ArenaScope scope(*context.scratch);
  const PanelCut cut(p.shape, p.c.dtype(), context.threads, p.also_a.empty() ? 0 : p.also_a.shape()[1]);
  if (p.shape.kind == GemmKind::weight)
    multiply_weight(context, p, cut);
  else
    multiply_forward_or_input(context, p, cut);
}

size_t panel_scratch_bytes(int64_t rows, int64_t inputs, int64_t outputs, DType dtype, int threads, int64_t also) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  const int64_t longest = std::max(inputs, outputs), most = kPanelBytes / kPanelColumns / size;
  const auto whole = [](int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; };
  int64_t own = (std::min(most, whole(longest, 32)) + whole(also, 32)) * (kPanelColumns + kStripRows) * size;
  if (dtype != DType::f32 && longest > most) own += whole(rows, kStripRows) * kPanelColumns * 4;
  const int64_t chunk = std::min(kChunkBytes, whole(rows, 32) * size);
  const int64_t strips = std::min(kBlockStrips, (longest + kStripRows - 1) / kStripRows);
  const int64_t own_weight = strips * (kStripRows * chunk + kStripEnd);
  const int64_t shared = std::max(kPanelColumns * chunk, std::min(kSharedBytes, whole(longest, kPanelColumns) * chunk));
  return static_cast<size_t>(std::max(threads * (own + 128), threads * (own_weight + 128) + shared)) + 2 * 64;
}

}  // namespace trireme
#endif
