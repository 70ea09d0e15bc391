#pragma once
// Measures generation of one sequence with the key-value cache against the memory bandwidth: a token needs every weight
// once, so it cannot take less than one read of them, which is timed between the tokens.

#include <cstdint>
#include <string>

#include "ops/ops.h"
#include "tensor/dtype.h"

namespace trireme {

struct GenerateBenchOptions {
  std::string preset = "gpt2-124m";
  DType dtype = DType::f32;
  int64_t prompt = 16, tokens = 128;  ///< prompt + tokens <= context
  int threads = 1;
};

struct GenerateBenchResult {
  double seconds_per_token = 0;  ///< median
  double seconds_per_read = 0;   ///< median of reading the weights once; 0 on a GPU, where it is not measured
  double weight_bytes = 0;       ///< read per token
  double share() const { return seconds_per_read / seconds_per_token; }
};

/// Throws Error::usage for sizes that do not fit.
GenerateBenchResult bench_generate(const GenerateBenchOptions& options, Ops& ops);

}  // namespace trireme
