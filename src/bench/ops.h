#pragma once
// Measures every operator on the shapes of one transformer layer, each against its ceiling in the same run: operators
// between the GEMMs against the memory bandwidth of a plain copy, products against the fastest linear layer. Operators
// between the GEMMs are measured once more on rows that stay in the caches: the time of their arithmetic when memory
// costs little.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bench/data_sheet.h"
#include "ops/ops.h"

namespace trireme {

/// GPT-2 124M, 4 sequences of 1024 tokens.
struct OpsBenchOptions {
  int64_t sequences = 4, length = 1024, width = 768, heads = 12, vocabulary = 50257, columns = 50304;
  int64_t loss_rows = 640;           ///< rows of logits at a time
  int64_t parameters = 124'439'808;  ///< elements of the flat arrays of the optimizer
  DType dtype = DType::f32;          ///< of activations and weights
  int threads = 1;
  double rotation = 256e6;  ///< bytes of tensors that calls go round through, so that they find nothing in the caches
  double seconds = 0.3;     ///< spent on each operator, at least three calls
  std::string only;         ///< operators whose names begin with one of these words, separated by commas; empty: all
};

struct OpsBenchRow {
  std::string op, shape;
  double seconds = 0;        ///< median of the calls
  double fastest = 0;        ///< of the calls: other load on the machine affects it less than the median
  bool counts_bytes = true;  ///< rate is bytes per second that must move; else FLOP per second
  double rate = 0;
  double amount = 0;  ///< bytes or FLOPs of a call
  double share = 0;   ///< rate / ceiling, of the medians
  double best = 0;    ///< the same of the fastest calls: the value on a machine with other load
  double cached =
      0;  ///< counts_bytes: rate in the caches by the fastest call of one thread, times the threads; 0: not measured

  /// The limit of which the fastest call reaches 0.8: "memory", "products" or "arithmetic"; empty: none.
  std::string_view bound() const;
};

struct OpsBenchTable {
  double copy_bytes_per_s = 0;                                  ///< read + written by copies of activations
  double gemm_flops_per_s = 0;                                  ///< fastest linear layer below
  double best_copy_bytes_per_s = 0, best_gemm_flops_per_s = 0;  ///< of the fastest calls
  std::vector<OpsBenchRow> rows;
};

OpsBenchTable bench_ops(Ops& ops, const OpsBenchOptions& options);

/// One aligned line per operator, under a heading with the two ceilings, and what they are of a GPU's data sheet.
std::string to_text(const OpsBenchTable& table, DType dtype = DType::f32, const DataSheet& sheet = {});

}  // namespace trireme
