#pragma once
// Measures fine-tuning steps on real rows, beside the same steps in PyTorch where asked for.

#include <string>
#include <vector>

namespace trireme {

struct GlueBenchOptions {
  std::string model;  ///< folder: its sizes and tokenizer; weights are random
  std::string data_dir, task = "mrpc";
  int64_t batch = 32, steps = 5, max_length = 128;
  int threads = 1;
  bool pad = false, pytorch = false;
  std::string python = ".venv/bin/python", peer_script = "bench/peers/pytorch_glue.py";
};

/// The same steps in PyTorch, measured in turn with ours on the same rows.
struct GluePeer {
  std::string padding;  ///< dynamic: to a batch's longest row; or to the full length
  double rows_per_second = 0;
  double ratio = 0;  ///< median over the steps of its seconds / ours: above 1, ours is faster
};

struct GlueBenchResult {
  double rows_per_second = 0;  ///< batch / median seconds
  double fastest = 0, median = 0, slowest = 0;
  double tokens_per_row = 0;  ///< without padding
  std::vector<GluePeer> peers;
};

GlueBenchResult bench_glue(const GlueBenchOptions& options);

}  // namespace trireme
