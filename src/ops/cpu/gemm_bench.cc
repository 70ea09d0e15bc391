#include "ops/gemm_bench.h"

#include "ops/cpu/gemm.h"
#include "ops/cpu/panel_gemm.h"

#include <algorithm>

#include "base/error.h"

namespace trireme {
namespace {

constexpr int64_t kBeyondCaches = int64_t{256} << 20;  // bytes between two uses of the same memory

struct Operands {
  View a, b, c;
};

Operands take_operands(Arena& arena, const GemmShape& s) {
  const bool weight = s.kind == GemmKind::weight, forward = s.kind == GemmKind::forward;
  Operands o;
  o.a = arena.take(s.dtype, {s.rows, forward ? s.in : s.out});
  o.b = weight ? arena.take(s.dtype, {s.rows, s.in}) : arena.take(s.dtype, {s.out, s.in});
  o.c = weight ? arena.take(DType::f32, {s.out, s.in}) : arena.take(s.dtype, {s.rows, forward ? s.out : s.in});
  return o;
}

/// Values in [1, 2) of either sign: no denormals, which would be slower, and no zeros, which draw less power.
void fill(View v) {
  uint32_t state = 1;
  const auto next = [&state] { return state = state * 1664525 + 1013904223; };
  if (v.dtype() == DType::bf16) {
    for (bf16_t& x : v.values<bf16_t>()) x = {static_cast<uint16_t>((next() >> 16 & 0x807F) | 0x3F80)};
  } else {
    for (float& x : v.values<float>()) {
      const uint32_t bits = (next() & 0x807FFFFF) | 0x3F800000;
      __builtin_memcpy(&x, &bits, sizeof x);
    }
  }
}

double median_seconds(Gemm& gemm, Context& context, const GemmShape& shape, GemmLayout layout,
                      const std::vector<Operands>& sets, int repetitions) {
  std::vector<double> seconds;
  for (int i = -1; i < repetitions; ++i) {  // the first builds the primitive and wakes the threads
    const Operands& o = sets[static_cast<size_t>(i + 1) % sets.size()];
    const double t = gemm.measure(context, shape, layout, o.a, o.b, o.c);
    if (i >= 0) seconds.push_back(t);
  }
  const auto middle = seconds.begin() + repetitions / 2;
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

}  // namespace

std::vector<GemmTiming> measure_gemms(std::span<const GemmShape> shapes, int threads, int repetitions) {
  require(threads > 0 && repetitions > 0, ErrorKind::usage,
          "measuring GEMMs with {} threads and {} repetitions, expected at least 1 of each", threads, repetitions);
  Gemm gemm;
  std::vector<GemmTiming> timings;
  for (GemmShape shape : shapes) {
    if (!gemm_has_bf16()) shape.dtype = DType::f32;
    Arena sizes;
    take_operands(sizes, shape);
    const auto bytes = static_cast<int64_t>(sizes.peak());
    const int64_t copies = std::min<int64_t>(repetitions + 1, 1 + kBeyondCaches / bytes);
    Arena memory(static_cast<size_t>(copies * bytes));
    std::vector<Operands> sets;
    for (int64_t i = 0; i < copies; ++i) {
      sets.push_back(take_operands(memory, shape));
      fill(sets.back().a);
      fill(sets.back().b);
    }
    const ConstView b = sets[0].b;
    Arena scratch(std::max(Gemm::packed_bytes(b.shape()[0], b.shape()[1], shape.dtype),
                           panel_scratch_bytes(shape.rows, shape.in, shape.out, shape.dtype, threads)));
    Context context{threads, &scratch};
    GemmTiming best{.shape = shape, .layout = GemmLayout::plain};
    for (GemmLayout layout : {GemmLayout::plain, GemmLayout::packed, GemmLayout::panels}) {
      if (layout == GemmLayout::panels && !has_panels(shape)) continue;
      const double seconds = median_seconds(gemm, context, shape, layout, sets, repetitions);
      if (layout == GemmLayout::plain) best.plain_seconds = seconds;
      if (best.seconds == 0 || seconds < best.seconds) best.layout = layout, best.seconds = seconds;
    }
    timings.push_back(best);
  }
  return timings;
}

}  // namespace trireme
