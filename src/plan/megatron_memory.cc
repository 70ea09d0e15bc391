#include <algorithm>

#include "plan/step_time.h"

namespace trireme {

MegatronMemory megatron_memory(const ModelSize& model, const StepLayout& layout, bool token_matrix) {
  const auto tensor = static_cast<double>(layout.tensor), stages = static_cast<double>(layout.pipeline);
  const auto chunks = static_cast<double>(layout.chunks);
  const double rows = static_cast<double>(layout.micro_batch * model.sequence),
               width = static_cast<double>(model.width);
  const double scores = 5.0 * static_cast<double>(model.heads * model.sequence) / width / tensor;
  constexpr double kStateBytes = 18;  // weight and gradient in 16 bits and f32, f32 master weight, two moments
  MegatronMemory memory;
  memory.state = kStateBytes * model.layer_parameters() * static_cast<double>(model.layers) / (stages * tensor);
  if (token_matrix) memory.state += kStateBytes * static_cast<double>(model.vocabulary) * width / tensor;
  const double linear = layout.sequence_parallel ? 34 / tensor : 10 + 24 / tensor;
  const double whole = linear + (layout.recomputed == Recomputed::nothing ? scores : 0);
  const double kept = layout.recomputed == Recomputed::layers ? (layout.sequence_parallel ? 2 / tensor : 2) : whole;
  // The first stage keeps `stages` micro-batches of its layers, more where they are interleaved.
  const double in_flight = std::min(static_cast<double>(layout.micro_batches()),
                                    layout.chunks > 1 ? stages * (1 + (stages - 1) / (stages * chunks)) : stages);
  const double layers = static_cast<double>(model.layers) / stages;
  memory.activations = rows * width * kept * layers * in_flight;
  if (layout.recomputed == Recomputed::layers) memory.activations += rows * width * whole;  // one layer at a time
  return memory;
}

}  // namespace trireme
