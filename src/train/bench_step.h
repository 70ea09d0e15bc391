#pragma once
// Measures whole training steps of a preset on this process: forward, backward, clip and AdamW, beside the rate of the
// step's own GEMMs.

#include <string>

#include "model/spec.h"
#include "tensor/dtype.h"

namespace trireme {

struct StepBenchOptions {
  std::string preset = "gpt2-124m";
  int64_t batch = 4, sequence = 1024;
  DType dtype = DType::f32;
  int64_t steps = 5, warmup = 1;
  int threads = 1;
  bool recompute = false;
  std::string tokens;  ///< token file; empty: random ids
};

struct StepBenchResult {
  double seconds = 0;  ///< median of one step
  double fastest = 0, slowest = 0;
  double tokens_per_second = 0;
  double model_flops = 0;  ///< of one step: train_flops_per_token x tokens
  double ceiling_flops_per_second = 0;
  double share = 0;     ///< model FLOP rate / ceiling
  double loss = 0;      ///< of the last step
  size_t peak_rss = 0;  ///< bytes, before the ceiling was measured
};

StepBenchResult bench_step(const StepBenchOptions& options);

}  // namespace trireme
