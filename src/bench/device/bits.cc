// Operators whose results have the CPU's bits by definition (docs/gpu.md): replicas and resumed runs rely on it.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/device/checks.h"
#include "ops/element_sum.h"

namespace trireme::device_check {
namespace {

struct Case {
  const char* name;
  DType dtype;
  void (*run)(Side&, int64_t elements);
};

void adamw(Side& s, int64_t n) {
  const View grad = s.input_f32({n}, 1, 0.1), m = s.input_f32({n}, 2, 0.01), v = s.input_f32({n}, 3, 0.0001, 0.0002);
  const View weights = s.input({n}, 4), remainder = s.dtype == DType::bf16 ? s.empty(DType::i16, {n}) : View();
  const AdamW options{.learning_rate = 1e-3f,
                      .weight_decay = 0.1f,
                      .correction1 = 0.19f,
                      .correction2 = 0.0975f,
                      .gradient_scale = 0.7f};
  for (int step = 0; step < 2; ++step) s.ops.adamw(s.context, options, grad, m, v, weights, remainder);
  s.keep("first moment", m);
  s.keep("second moment", v);
  s.keep("weights", weights);
  if (!remainder.empty()) s.keep("remainder", remainder);
}

/// Which elements are zero.
void dropout_masks(Side& s, int64_t) {
  const int64_t rows = s.sizes.rows(), width = s.sizes.spec.width;
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  for (size_t i = 0; i < positions.size(); ++i)
    positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % s.sizes.sequence);
  const Dropout dropout{.rate = 0.3f,
                        .key = dropout_key(1, 2, 3, 0),
                        .sample = s.ids(DType::i64, {rows}, int64_t{1} << 40),
                        .position = s.place(DType::i32, {rows}, std::as_bytes(std::span(positions)))};
  const View dx = s.empty({rows, width});
  s.ops.dropout_backward(s.context, s.input({rows, width}, 1, 0.5, 1), dropout, dx);
  s.keep("mask", dx);
  for (Side::Output& mask : s.outputs) {
    std::vector<std::byte> kept(mask.size() * sizeof(int16_t));
    for (size_t i = 0; i < mask.size(); ++i) kept[i * sizeof(int16_t)] = std::byte{mask.at(i) != 0};
    mask = {mask.name, DType::i16, std::move(kept)};
  }
}

const Case kCases[] = {
    {"adamw", DType::f32, adamw},
    {"adamw with remainders", DType::bf16, adamw},
    {"dropout", DType::f32, dropout_masks},
    {"dropout", DType::bf16, dropout_masks},
    {"squared_norms", DType::f32,
     [](Side& s, int64_t n) {
       const View values = s.empty(DType::f64, {(n + kNormChunk - 1) / kNormChunk});
       s.ops.squared_norms(s.context, s.input_f32({n}, 1), values);
       s.keep("squared norms", values);
     }},
    {"element_sums", DType::f32,
     [](Side& s, int64_t n) {
       const View sums = s.empty(DType::i64, {(n + kNormChunk - 1) / kNormChunk});
       ElementPlaces places;
       places.key = 5;
       places.extents[3] = n;
       s.ops.element_sums(s.context, s.input_f32({n}, 1), {}, places, sums);
       s.keep("sums", sums);
     }},
    {"wire_cast", DType::bf16,
     [](Side& s, int64_t n) {
       const View y = s.empty(DType::bf16, {n});
       s.ops.wire_cast(s.context, s.input_f32({n}, 1), y);
       s.keep("cast", y);
     }},
    {"sum_contributions", DType::f32,
     [](Side& s, int64_t n) {
       const std::vector<ConstView> parts{s.input_f32({n}, 1), s.input_f32({n}, 2), s.input_f32({n}, 3)};
       const View own = s.empty(DType::f32, {n}), sum = s.empty(DType::f32, {n});
       s.ops.sum_contributions(s.context, parts, own, sum);
       s.keep("sum", sum);
     }},
};

}  // namespace

Result check_bits(const Bench& bench) {
  const int64_t elements = std::min<int64_t>(4'000'001, bench.sizes.spec.vocabulary * bench.sizes.spec.width + 1);
  size_t compared = 0;
  for (const Case& one : kCases) {
    Side gpu(*bench.gpu.ops, 1, one.dtype, DType::f32, bench.sizes),
        cpu(*bench.cpu.ops, bench.rank.threads, one.dtype, DType::f32, bench.sizes);
    one.run(gpu, elements);
    one.run(cpu, elements);
    if (const std::string other = other_bits(gpu, cpu); !other.empty())
      return failed(fmt::format("{} in {}: {}", one.name, name_of(one.dtype), other));
    for (const Side::Output& output : gpu.outputs) compared += output.size();
    gpu.begin();
  }
  return {.text = fmt::format("AdamW, norms, dropout's masks, casts, sums, hashes: {} values with the CPU's bits",
                              compared),
          .figures = {{"values", static_cast<double>(compared)}}};
}

Result failed(std::string text) { return {.verdict = Verdict::failed, .text = std::move(text)}; }
Result not_checked(std::string reason) { return {.verdict = Verdict::not_checked, .text = std::move(reason)}; }

}  // namespace trireme::device_check
