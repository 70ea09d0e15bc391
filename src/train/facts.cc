#include "train/facts.h"

#include "base/error.h"
#include "train/machine.h"

namespace trireme {
namespace {

std::string gigabytes(size_t bytes) { return fmt::format("{:.2f} GB", static_cast<double>(bytes) / 1e9); }

}  // namespace

ModelShape model_shape(const Setup& setup) {
  return {.rows = setup.batch.largest_micro() * setup.batch.sequence,
          .training = !setup.config().evaluation.only,
          .head_rows = 0,
          .accumulates = setup.batch.micro_batches > 1,
          .recompute = setup.config().model.recompute};
}

MemoryPlan plan_memory(const Setup& setup, const ParameterTable& table, const Ops& ops, int ranks, int threads) {
  const auto parameters = static_cast<size_t>(table.flat_count());
  const size_t weight_bytes = parameters * (size_of(setup.dtype) + (setup.dtype == DType::bf16 ? sizeof(int16_t) : 0));
  const StageBytes stage = stage_bytes(setup.spec, setup.dtype, model_shape(setup), ops, threads);
  MemoryPlan plan;
  plan.state =
      weight_bytes + static_cast<size_t>(table.gradient_count()) * sizeof(float) + 2 * parameters * sizeof(float);
  plan.activations = stage.activations;
  plan.scratch = stage.scratch;
  plan.snapshot = setup.config().evaluation.only ? 0 : 3 * parameters * sizeof(float) / static_cast<size_t>(ranks);
  return plan;
}

void require_memory(const MemoryPlan& plan, const Setup& setup, const Process& process) {
  const uint64_t available = available_memory(process.local_size());
  require(plan.total() <= available, ErrorKind::config,
          "this run needs {} per rank (weights, gradients and moments {}, activations {}, scratch {}, snapshot {}), "
          "but each of the {} ranks on {} can have {}; lower "
          "batch.micro ({} rows now), batch.sequence or the model, or use fewer ranks per host",
          gigabytes(plan.total()), gigabytes(plan.state), gigabytes(plan.activations), gigabytes(plan.scratch),
          gigabytes(plan.snapshot), process.local_size(), process.host(), gigabytes(available),
          setup.batch.largest_micro());
}

RunFacts run_facts(const Setup& setup, const ParameterTable& table, const MemoryPlan& plan, const Process& process,
                   const Backend& backend, int threads, double peak_flops) {
  const Spec& s = setup.spec;
  const BatchShape& b = setup.batch;
  RunFacts facts;
  const auto add = [&](const char* name, std::string value) { facts.emplace_back(name, std::move(value)); };
  add("model",
      fmt::format("{:.2f}M parameters: {} layers, {} heads, width {}, context {}, vocabulary {}",
                  static_cast<double>(table.total()) / 1e6, s.layers, s.heads, s.width, s.context, s.vocabulary));
  add("data", fmt::format("{} ({} tokens){}", setup.train->name(), setup.train->tokens(),
                          setup.validation ? fmt::format(", validation {} ({} tokens)", setup.validation->name(),
                                                         setup.validation->tokens())
                                           : ""));
  if (s.head == HeadKind::masked_language_model)
    add("masking", fmt::format("{:.3g} % of the tokens are to be found (8 of 10 masked, 1 another token, 1 as it is), "
                               "{}",
                               1e2 * setup.config().data.mask_rate,
                               setup.config().data.whole_words ? "whole words" : "each by itself"));
  add("batch", fmt::format("{} x {} = {} tokens per step: {} ranks x {} micro-batches of {}", b.global, b.sequence,
                           b.global * b.sequence, b.ranks, b.micro_batches, b.largest_micro()));
  add("precision", std::string(name_of(setup.dtype)));
  add("ranks", fmt::format("{} ({} on this host), {}", process.size(), process.local_size(),
                           const_cast<Process&>(process).world().backend()));
  add("cpu", fmt::format("{}, kernels {}, {} threads per rank", backend.hardware, backend.kernels, threads));
  add("memory", fmt::format("{} per rank planned: state {}, activations {}, scratch {}, snapshot {}",
                            gigabytes(plan.total()), gigabytes(plan.state), gigabytes(plan.activations),
                            gigabytes(plan.scratch), gigabytes(plan.snapshot)));
  add("mfu", fmt::format("model FLOPs {:.1f} MFLOP per token (6 x matmul parameters + 6 x layers x width x sequence), "
                         "peak {:.1f} GFLOP/s over all ranks ({})",
                         train_flops_per_token(s, b.sequence) / 1e6, peak_flops / 1e9,
                         setup.config().log.peak_tflops > 0 ? "log.peak-tflops" : "measured GEMM rate"));
  return facts;
}

}  // namespace trireme
