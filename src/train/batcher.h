#pragma once
// Host arrays of one micro-batch of samples, as a model's Batch.

#include <cstdint>
#include <span>
#include <vector>

#include "data/sample_source.h"
#include "model/pass.h"

namespace trireme {

class Batcher {
 public:
  /// At most `sequences` samples of `sequence` tokens.
  Batcher(int64_t sequences, int64_t sequence);
  /// The slice's samples; valid until the next call. slice.count <= sequences; an empty slice gives a batch with 0
  /// rows.
  const Batch& fill(const SampleSource& data, SampleStream stream, BatchSlice slice);

 private:
  int64_t sequence_;
  std::vector<int32_t> tokens_, targets_, positions_, types_, offsets_;
  std::vector<int64_t> samples_;
  Batch batch_;
};

}  // namespace trireme
