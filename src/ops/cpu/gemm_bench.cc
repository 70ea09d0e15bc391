#include "ops/gemm_bench.h"

#include "ops/cpu/gemm.h"
#include "ops/cpu/panel_gemm.h"
#include "ops/cpu/tile_panel_gemm.h"

#include <algorithm>

#include "base/error.h"
#include "base/numbers.h"

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

/// Operands of one product, several times over: enough that, memory permitting, none is reused while it is in a cache.
class OperandSets {
 public:
  OperandSets(const GemmShape& shape, int runs) {
    Arena sizes;
    take_operands(sizes, shape);
    const auto bytes = static_cast<int64_t>(sizes.peak());
    const int64_t copies = std::min<int64_t>(runs, 1 + kBeyondCaches / bytes);
    memory_ = Arena(static_cast<size_t>(copies * bytes));
    for (int64_t i = 0; i < copies; ++i) {
      sets_.push_back(take_operands(memory_, shape));
      for (const View v : {sets_.back().a, sets_.back().b, sets_.back().c}) fill(v);  // c: so that its pages exist
    }
  }
  const Operands& next() { return sets_[next_++ % sets_.size()]; }

 private:
  Arena memory_;
  std::vector<Operands> sets_;
  size_t next_ = 0;
};

double median_seconds(Gemm& gemm, Context& context, const GemmShape& shape, GemmLayout layout, OperandSets& operands,
                      int repetitions) {
  std::vector<double> seconds;
  for (int i = -1; i < repetitions; ++i) {  // the first builds the primitive and wakes the threads
    const Operands& o = operands.next();
    const double t = gemm.measure(context, shape, layout, o.a, o.b, o.c);
    if (i >= 0) seconds.push_back(t);
  }
  return median(std::move(seconds));
}

constexpr std::array<GemmLayout, kGemmLayouts> kLayouts = {GemmLayout::plain, GemmLayout::packed, GemmLayout::panels,
                                                           GemmLayout::tiles};

}  // namespace

GemmMeter::GemmMeter(std::span<const GemmShape> shapes, int threads)
    : gemm_(std::make_unique<Gemm>()), threads_(threads) {
  require(threads > 0, ErrorKind::usage, "measuring GEMMs with {} threads, expected at least 1", threads);
  for (GemmShape shape : shapes) {
    if (!gemm_has_bf16()) shape.dtype = DType::f32;
    products_.push_back({shape, {}});
  }
}

GemmMeter::~GemmMeter() = default;

void GemmMeter::pass(int repetitions) {
  require(repetitions > 0, ErrorKind::usage, "measuring GEMMs with {} repetitions, expected at least 1", repetitions);
  for (Product& product : products_) {
    const GemmShape& shape = product.shape;
    OperandSets operands(shape, static_cast<int>(kLayouts.size()) * (repetitions + 1));
    const int64_t b_rows = shape.kind == GemmKind::weight ? shape.rows : shape.out;
    Arena scratch(std::max({Gemm::packed_bytes(b_rows, shape.in, shape.dtype),
                            panel_scratch_bytes(shape.rows, shape.in, shape.out, shape.dtype, threads_),
                            has_tiles(shape) ? tile_scratch_bytes(shape.rows, shape.in, shape.out, threads_) : 0}));
    Context context{threads_, &scratch};
    for (const GemmLayout layout : kLayouts) {
      if (layout == GemmLayout::panels && !has_panels(shape)) continue;
      if (layout == GemmLayout::tiles && !has_tiles(shape)) continue;
      product.seconds[static_cast<size_t>(layout)].push_back(
          median_seconds(*gemm_, context, shape, layout, operands, repetitions));
    }
  }
}

GemmTiming GemmMeter::timing(size_t shape) const {
  const Product& product = products_[shape];
  GemmTiming best{.shape = product.shape, .layout = GemmLayout::plain};
  for (const GemmLayout layout : kLayouts) {
    const std::vector<double>& of_passes = product.seconds[static_cast<size_t>(layout)];
    if (of_passes.empty()) continue;
    const double seconds = median(of_passes);
    if (layout == GemmLayout::plain) best.plain_seconds = seconds;
    if (best.seconds == 0 || seconds < best.seconds) best.layout = layout, best.seconds = seconds;
  }
  return best;
}

std::vector<GemmTiming> measure_gemms(std::span<const GemmShape> shapes, int threads, int repetitions) {
  GemmMeter meter(shapes, threads);
  meter.pass(repetitions);
  std::vector<GemmTiming> timings;
  for (size_t i = 0; i < shapes.size(); ++i) timings.push_back(meter.timing(i));
  return timings;
}

}  // namespace trireme
