#include "bench/peer_start.h"

#include "base/error.h"
#include "checkpoint/safetensors/safetensors.h"
#include "optim/training_state.h"

namespace trireme {
namespace {

void append(std::vector<int32_t>& all, ConstView ids) {
  const auto values = ids.values<int32_t>();
  all.insert(all.end(), values.begin(), values.end());
}

SafetensorsEntry entry(std::string name, std::string dtype, const Shape& shape) {
  SafetensorsEntry e;
  e.name = std::move(name);
  e.dtype = std::move(dtype);
  for (int dim = 0; dim < shape.dims(); ++dim) e.shape.push_back(shape[dim]);
  return e;
}

}  // namespace

PeerStart::PeerStart(const ParameterTable& table, uint64_t seed, StepBatches& batches, int64_t steps, int64_t samples) {
  std::vector<int32_t> tokens, targets;
  for (int64_t step = 0; step < steps; ++step) {
    const auto consumed = static_cast<uint64_t>(step * samples);
    (void)batches.counted(consumed);
    const Batch& batch = batches.fill(consumed, 0);
    append(tokens, batch.tokens);
    append(targets, batch.targets);
  }
  std::vector<SafetensorsEntry> entries;
  for (const Parameter& p : table.all()) entries.push_back(entry(p.name, "F32", p.global_shape));
  const Shape ids{steps, static_cast<int64_t>(tokens.size()) / steps};
  entries.push_back(entry("tokens", "I32", ids));
  entries.push_back(entry("targets", "I32", ids));
  TrainingState weights(table, DType::f32, false);
  initialize(weights, table, seed);
  SafetensorsWriter writer(path(), std::move(entries), {});
  size_t next = 0;
  for (const Parameter& p : table.all())
    writer.write(next++, std::as_bytes(view_of(weights.weights(), p).values<float>()));
  writer.write(next++, std::as_bytes(std::span(tokens)));
  writer.write(next++, std::as_bytes(std::span(targets)));
  writer.commit();
}

}  // namespace trireme
