#include "bench/step_ceiling.h"

#include <algorithm>
#include <vector>

#include "model/memory.h"
#include "ops/gemm_bench.h"

namespace trireme {
namespace {

/// A GEMM of one step and how often it runs.
struct StepGemm {
  GemmShape shape;
  double times;
};

/// Every GEMM of one step: forward, input and weight gradient of each linear and of the head.
std::vector<StepGemm> step_gemms(const Spec& spec, DType dtype, int64_t rows) {
  std::vector<StepGemm> gemms;
  const auto add = [&](int64_t at_once, int64_t out, int64_t in, double times) {
    for (const GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
      gemms.push_back({{kind, at_once, in, out, dtype}, times});
  };
  const auto layers = static_cast<double>(spec.layers);
  add(rows, 3 * spec.width, spec.width, layers);
  add(rows, spec.width, spec.width, layers);
  add(rows, spec.inner_width, spec.width, layers);
  add(rows, spec.width, spec.inner_width, layers);
  if (!spec.has_decoder()) return gemms;
  const int64_t head_rows = std::min(rows, head_rows_for(spec, dtype, rows));
  add(head_rows, spec.vocabulary_rows, spec.width, static_cast<double>(rows) / static_cast<double>(head_rows));
  return gemms;
}

}  // namespace

StepCeiling step_ceiling(const Spec& spec, DType dtype, int64_t rows, int threads) {
  constexpr int kRepetitions = 5;
  double flops = 0, seconds = 0, plain_seconds = 0;
  for (const StepGemm& gemm : step_gemms(spec, dtype, rows)) {
    const GemmTiming timing = measure_gemms(std::span(&gemm.shape, 1), threads, kRepetitions).front();
    flops += gemm.times * 2.0 * static_cast<double>(gemm.shape.rows) * static_cast<double>(gemm.shape.in) *
             static_cast<double>(gemm.shape.out);
    seconds += gemm.times * timing.seconds;
    plain_seconds += gemm.times * timing.plain_seconds;
  }
  return {flops / seconds, flops / plain_seconds};
}

}  // namespace trireme
