#include "ops/cpu/gemm.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "ops/cpu/isa.h"
#include "ops/cpu/panel_gemm.h"
#include "ops/cpu/tile_panel_gemm.h"

namespace trireme {
namespace {

using dnnl::memory;

memory::data_type type_of(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

/// stride: 0: rows are contiguous.
memory::desc row_major(int64_t rows, int64_t columns, DType dtype, int64_t stride = 0) {
  return {{rows, columns}, type_of(dtype), memory::dims{stride > 0 ? stride : columns, 1}};
}
/// A row-major [columns, rows] matrix read as its transpose.
memory::desc transposed(int64_t rows, int64_t columns, DType dtype, int64_t stride = 0) {
  return {{rows, columns}, type_of(dtype), memory::dims{1, stride > 0 ? stride : rows}};
}

/// The one place where the versions of oneDNN differ: 3.0 dropped operation descriptors.
dnnl::matmul::primitive_desc describe_matmul(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                                             const memory::desc* bias, const memory::desc& c,
                                             const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  return bias ? dnnl::matmul::primitive_desc(engine, a, b, *bias, c, attributes)
              : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
#else
  return {bias ? dnnl::matmul::desc(a, b, *bias, c) : dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

/// Keeps oneDNN below the instruction set that was asked for. It listens only before its first primitive.
void limit_onednn() {
  switch (cpu_isa()) {
    case Isa::portable:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41);
      break;
    case Isa::avx2:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
      break;
    case Isa::avx512:
    case Isa::avx512bf16_fma:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core);
      break;
    case Isa::avx512bf16:
      dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx512_core_bf16);
      break;
    case Isa::amx:
      break;  // no limit: oneDNN may know more of this CPU than we do
  }
}

/// Sets the operators' thread count for the calls inside: oneDNN queries OpenMP.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

GemmShape shape_of(GemmKind kind, ConstView a, ConstView b) {
  const int64_t out = kind == GemmKind::weight ? a.shape()[1] : b.shape()[0];
  return {kind, a.shape()[0], b.shape()[1], out, a.dtype()};
}

constexpr size_t kMaxPlans = 1024;  // of changing shapes (prompts of any length): far more than a training step uses

}  // namespace

std::string onednn_version_text() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

bool gemm_has_bf16() { return cpu_isa() >= Isa::avx512bf16; }
bool multiplies_bf16() { return gemm_has_bf16() || emulates_tiles(); }

// Zen 5, 2 cores, oneDNN 2.6.3, 4096 rows, GFLOP/s including the copy, plain -> packed; the last f32 column was taken
// on another day, so compare within a cell:
//            768 -> 2304              768 -> 3072              3072 -> 768
//   f32      forward 417 -> 447       419 -> 454               396 -> 414
//            input   361 -> 442       372 -> 443               371 -> 412
//            weight  420 -> 384       421 -> 410               318 -> 338
//   bf16     forward 846 -> 870       891 -> 917               852 -> 913
//            input   830 -> 916       866 -> 908               823 -> 931
//            weight  764 -> 800       729 -> 840               726 -> 794
// With 256 rows the copy costs more than it gains (f32 forward 442 -> 384), from 512 on it is even or better.
//
// Except where the rows of an f32 weight are complete pages apart: a column of it then maps to one set of the cache,
// and the product of AVX-512 reaches half its speed. Where their length is a power of two oneDNN makes its own copy.
// Xeon (Emerald Rapids class), 2 cores, f32 input, time including the copy over time without:
//   rows       32     64    128    256
//   3072     0.87   0.72   0.67   0.62
//   5120     1.02   0.77   0.62      -
//   6144     1.13   0.90   0.72      -
//   2304     1.46   1.24   1.05      -
//   4096     1.41   1.32   1.21   1.16
namespace {

// From this number of rows on, packing the other operand gains more than the copy costs.
constexpr int64_t kRowsWorthACopy = 512, kStridedRowsWorthACopy = 64;
// From this number on, our kernel is faster than oneDNN's on CPUs that multiply pairs of bf16, in f32, too; below, and
// for unsupported products, operands are used as stored. On AVX2 it is slower (Zen 3, f32: 0.6 to 1.0 of oneDNN's
// rate); on AVX-512 without pairs the two were not compared.
constexpr int64_t kRowsWorthPanels = 128;

// Which products our kernel in tile registers takes on a CPU with AMX: those that oneDNN 2.6 is far behind with. Xeon
// (model 167), 2 cores, bf16, GFLOP/s: forward and input products of 4096 x 768 x 3072 reach 1,790 and 1,549, the
// weight gradient 853, and a decoder's head forward 861. From a few rows and columns on, packing is worth its time.
// That our kernel is faster has not been measured.
constexpr int64_t kRowsWorthTiles = 128, kColumnsWorthTiles = 64, kOutputsOfAHead = 8192;

bool tiles_are_best(const GemmShape& s) {
  if (!has_tiles(s)) return false;
  if (emulates_tiles()) return true;  // tests reach every product
  if (s.rows < kRowsWorthTiles) return false;
  return s.kind == GemmKind::weight ? std::min(s.out, s.in) >= kColumnsWorthTiles
                                    : s.kind == GemmKind::forward && s.out >= kOutputsOfAHead;
}

bool has_fast_panels() { return cpu_isa() == Isa::avx512bf16; }

bool is_slow_to_stride(const GemmShape& shape) {
  constexpr int64_t kPage = 4096 / sizeof(float);
  return shape.kind == GemmKind::input && shape.dtype == DType::f32 && shape.in % kPage == 0 &&
         !std::has_single_bit(static_cast<uint64_t>(shape.in));
}

}  // namespace

GemmLayout best_layout(const GemmShape& shape) {
  if (tiles_are_best(shape)) return GemmLayout::tiles;
  if (has_fast_panels())
    return may_take_panels(shape.rows) && has_panels(shape) ? GemmLayout::panels : GemmLayout::plain;
  if (shape.kind == GemmKind::weight)
    return shape.dtype == DType::bf16 && shape.out >= kRowsWorthACopy ? GemmLayout::packed : GemmLayout::plain;
  const int64_t least = is_slow_to_stride(shape) ? kStridedRowsWorthACopy : kRowsWorthACopy;
  return shape.rows >= least ? GemmLayout::packed : GemmLayout::plain;
}

bool may_be_packed(int64_t rows, DType dtype) {
  return !has_fast_panels() && rows >= (dtype == DType::f32 ? kStridedRowsWorthACopy : kRowsWorthACopy);
}

bool may_take_panels(int64_t rows) { return has_fast_panels() && rows >= kRowsWorthPanels; }

bool may_take_tiles(int64_t rows, DType dtype) {
  return dtype == DType::bf16 && multiplies_tiles() && (emulates_tiles() || rows >= kRowsWorthTiles);
}

/// A built product: its primitives and the memory objects whose addresses each call sets.
struct Gemm::Plan {
  dnnl::matmul product;
  dnnl::reorder pack;
  memory a, b, packed, bias, c;
  std::unordered_map<int, memory> arguments, pack_arguments;
  size_t packed_bytes = 0;  ///< 0: b is used unchanged
};

struct Gemm::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  using Key = std::tuple<Call, int>;  // threads
  std::map<Key, Plan> plans;
  std::vector<std::byte> scratchpad;  ///< oneDNN's own blocking buffers, about 1 MiB per thread; grows with new plans

  memory memory_of(const memory::desc& d) const { return {d, engine, DNNL_MEMORY_NONE}; }
};

Gemm::Gemm() {
  limit_onednn();
  state_ = std::make_unique<State>();
}
Gemm::~Gemm() = default;

size_t Gemm::packed_bytes(int64_t n, int64_t m, DType dtype) {
  constexpr int64_t kBlock = 64;  // both sizes are padded to whole blocks of at most this
  return static_cast<size_t>((n + kBlock) * (m + kBlock)) * size_of(dtype);
}

Gemm::Plan& Gemm::plan(Context& context, const Call& call) {
  State& state = *state_;
  const State::Key key{call, context.threads};
  if (const auto found = state.plans.find(key); found != state.plans.end()) return found->second;
  if (state.plans.size() >= kMaxPlans) state.plans.clear();

  const GemmShape& s = call.shape;
  const bool forward = s.kind == GemmKind::forward, weight = s.kind == GemmKind::weight;
  const memory::desc a = forward  ? row_major(s.rows, s.in, s.dtype, call.strides.a)
                         : weight ? transposed(s.out, s.rows, s.dtype, call.strides.a)
                                  : row_major(s.rows, s.out, s.dtype, call.strides.a);
  const int64_t inner = forward ? s.in : weight ? s.rows : s.out, columns = forward ? s.out : s.in;
  const memory::desc b = forward ? transposed(inner, columns, s.dtype) : row_major(inner, columns, s.dtype);
  const memory::desc c = row_major(weight ? s.out : s.rows, columns, call.c, call.strides.c);
  const memory::desc bias_desc = row_major(1, s.out, s.dtype);
  const memory::desc any({inner, columns}, type_of(s.dtype), memory::format_tag::any);

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (call.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  static std::mutex one_at_a_time;  // oneDNN 2.6 makes primitives in a cache that the thread sanitizer sees races in
  const std::lock_guard lock(one_at_a_time);
  const auto pd = describe_matmul(state.engine, a, call.layout == GemmLayout::packed ? any : b,
                                  call.bias ? &bias_desc : nullptr, c, attributes);
  Plan p;
  p.product = dnnl::matmul(pd);
  p.a = state.memory_of(a);
  p.b = state.memory_of(b);
  p.c = state.memory_of(c);
  p.arguments = {{DNNL_ARG_SRC, p.a}, {DNNL_ARG_WEIGHTS, p.b}, {DNNL_ARG_DST, p.c}};
  if (pd.weights_desc() != b) {
    p.packed = state.memory_of(pd.weights_desc());
    p.packed_bytes = pd.weights_desc().get_size();
    p.pack = dnnl::reorder(p.b, p.packed);
    p.pack_arguments = {{DNNL_ARG_FROM, p.b}, {DNNL_ARG_TO, p.packed}};
    p.arguments[DNNL_ARG_WEIGHTS] = p.packed;
  }
  if (call.bias) {
    p.bias = state.memory_of(bias_desc);
    p.arguments[DNNL_ARG_BIAS] = p.bias;
  }
  const memory::desc scratchpad = pd.scratchpad_desc();
  if (scratchpad.get_size() > state.scratchpad.size()) state.scratchpad.resize(scratchpad.get_size());
  p.arguments[DNNL_ARG_SCRATCHPAD] = state.memory_of(scratchpad);
  return state.plans.emplace(key, std::move(p)).first->second;
}

void Gemm::bind(Context& context, Plan& p, ConstView a, ConstView b, ConstView bias, View c) {
  p.a.set_data_handle(const_cast<void*>(a.data()));  // oneDNN has no read-only memory; sources are not written
  p.b.set_data_handle(const_cast<void*>(b.data()));
  p.c.set_data_handle(c.data());
  p.arguments.at(DNNL_ARG_SCRATCHPAD).set_data_handle(state_->scratchpad.data());
  if (!bias.empty()) p.bias.set_data_handle(const_cast<void*>(bias.data()));
  if (p.packed_bytes == 0) return;
  p.packed.set_data_handle(context.scratch->take(DType::u8, {static_cast<int64_t>(p.packed_bytes)}).data());
  p.pack.execute(state_->stream, p.pack_arguments);
}

void Gemm::multiply(Context& context, GemmKind kind, ConstView a, ConstView b, ConstView bias, View c, bool accumulate,
                    GemmStrides strides) {
  const GemmShape shape = shape_of(kind, a, b);
  const GemmLayout layout = best_layout(shape);
  if (layout == GemmLayout::panels) return multiply_panels(context, {shape, a, b, bias, c, strides, accumulate});
  if (layout == GemmLayout::tiles) return multiply_tiles(context, {shape, a, b, bias, c, strides, accumulate});
  const ThreadCount threads(context.threads);
  Plan& p = plan(context, {shape, layout, strides, c.dtype(), !bias.empty(), accumulate});
  const ArenaScope scope(*context.scratch);
  bind(context, p, a, b, bias, c);
  p.product.execute(state_->stream, p.arguments);
  state_->stream.wait();
}

bool Gemm::takes_both(GemmKind kind, ConstView a, ConstView b, ConstView also_a, ConstView also_b) {
  const GemmShape shape = shape_of(kind, a, b);
  const GemmLayout layout = best_layout(shape);
  return layout == GemmLayout::tiles || (layout == GemmLayout::panels && has_panels(shape_of(kind, also_a, also_b)));
}

void Gemm::multiply_both(Context& context, GemmKind kind, ConstView a, ConstView b, ConstView bias, ConstView also_a,
                         ConstView also_b, View c) {
  const PanelProduct product{.shape = shape_of(kind, a, b),
                             .a = a,
                             .b = b,
                             .bias = bias,
                             .c = c,
                             .strides = {},
                             .also_a = also_a,
                             .also_b = also_b};
  best_layout(product.shape) == GemmLayout::tiles ? multiply_tiles(context, product)
                                                  : multiply_panels(context, product);
}

double Gemm::measure(Context& context, const GemmShape& shape, GemmLayout layout, ConstView a, ConstView b, View c) {
  if (layout == GemmLayout::panels || layout == GemmLayout::tiles) {
    const PanelProduct product{shape, a, b, {}, c, {}, false};
    const auto start = Clock::now();
    layout == GemmLayout::tiles ? multiply_tiles(context, product) : multiply_panels(context, product);
    return seconds_since(start);
  }
  const ThreadCount threads(context.threads);
  Plan& p = plan(context, {.shape = shape, .layout = layout, .strides = {}, .c = c.dtype()});
  const ArenaScope scope(*context.scratch);
  bind(context, p, a, b, {}, c);
  const auto start = Clock::now();
  p.product.execute(state_->stream, p.arguments);
  state_->stream.wait();
  return seconds_since(start);
}

}  // namespace trireme
