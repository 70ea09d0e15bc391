#include "train/bench_step.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/time.h"
#include "data/token_dataset.h"
#include "model/stage.h"
#include "ops/cpu/gemm_bench.h"
#include "optim/optimizer.h"
#include "train/batcher.h"

namespace trireme {
namespace {

size_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::vector<uint16_t> bench_tokens(const StepBenchOptions& options, const Spec& spec) {
  if (!options.tokens.empty()) {
    const TokenDataset file(options.tokens, static_cast<uint64_t>(spec.vocabulary), false);
    const auto all = file.tokens();
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(all.size(), 1 << 24))};
  }
  std::vector<uint16_t> tokens(static_cast<size_t>(options.batch * options.sequence) + 4096);
  RandomStream random(1);
  for (uint16_t& id : tokens) id = static_cast<uint16_t>(random.below(static_cast<uint64_t>(spec.vocabulary)));
  return tokens;
}

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
  const int64_t head_rows = std::min(rows, head_rows_for(spec, dtype, rows));
  add(head_rows, spec.vocabulary_rows, spec.width, static_cast<double>(rows) / static_cast<double>(head_rows));
  return gemms;
}

/// FLOP/s of all the step's GEMMs one after the other, each in its best layout.
double step_ceiling(const Spec& spec, DType dtype, int64_t rows, int threads) {
  constexpr int kRepetitions = 5;
  double flops = 0, seconds = 0;
  for (const StepGemm& gemm : step_gemms(spec, dtype, rows)) {
    const GemmTiming timing = measure_gemms(std::span(&gemm.shape, 1), threads, kRepetitions).front();
    flops += gemm.times * 2.0 * static_cast<double>(gemm.shape.rows) * static_cast<double>(gemm.shape.in) *
             static_cast<double>(gemm.shape.out);
    seconds += gemm.times * timing.seconds;
  }
  return flops / seconds;
}

/// Step times in seconds, warm-up left out; also the last loss.
std::vector<double> time_steps(const StepBenchOptions& options, const Spec& spec, double& loss) {
  const ParameterTable table(spec);
  TrainingState state(table, options.dtype, true);
  initialize(state, table, 1);
  const auto ops = make_cpu_ops();
  const auto single = make_single();
  Optimizer optimizer(table, state, *ops, *single, {});
  Stage stage(spec, {&table, state.weights(), state.gradients()}, options.dtype,
              {.rows = options.batch * options.sequence, .accumulates = false, .recompute = options.recompute}, *ops,
              options.threads);
  Batcher batcher(options.batch, options.sequence);
  const std::vector<uint16_t> tokens = bench_tokens(options, spec);
  const double scale = 1.0 / static_cast<double>(options.batch * options.sequence);

  std::vector<double> seconds;
  for (int64_t step = 0; step < options.warmup + options.steps; ++step) {
    const auto start = Clock::now();
    const Batch& batch =
        batcher.fill(tokens, 1, Stream::training, {static_cast<uint64_t>(step * options.batch), options.batch});
    optimizer.begin_exchange();
    loss = stage.loss_and_backward(batch, {}, static_cast<float>(scale), Write::overwrite, &optimizer) * scale;
    const double norm = std::sqrt(optimizer.finish_exchange(stage.context()));
    optimizer.update(stage.context(), 1e-4, step + 1, norm);
    if (step >= options.warmup) seconds.push_back(seconds_since(start));
    log::info("step {:>3}  loss {:.4f}  {:.3f} s{}", step + 1, loss, seconds_since(start),
              step < options.warmup ? "  (warm-up)" : "");
  }
  return seconds;
}

}  // namespace

StepBenchResult bench_step(const StepBenchOptions& options) {
  const Spec spec = preset(options.preset);
  require(options.sequence <= spec.context, ErrorKind::usage, "--seq {} is longer than the {} positions of {}",
          options.sequence, spec.context, options.preset);
  StepBenchResult result;
  const std::vector<double> seconds = time_steps(options, spec, result.loss);
  result.peak_rss = peak_rss();
  result.seconds = median(seconds);
  std::tie(result.fastest, result.slowest) =
      std::pair(*std::ranges::min_element(seconds), *std::ranges::max_element(seconds));
  const double tokens = static_cast<double>(options.batch * options.sequence);
  result.tokens_per_second = tokens / result.seconds;
  result.model_flops = train_flops_per_token(spec, options.sequence) * tokens;
  result.ceiling_flops_per_second =
      step_ceiling(spec, options.dtype, options.batch * options.sequence, options.threads);
  result.share = result.model_flops / result.seconds / result.ceiling_flops_per_second;
  return result;
}

}  // namespace trireme
