#include "checkpoint/peft/adapter.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "checkpoint/peft/targets.h"
#include "model/adapters.h"

namespace trireme {
namespace {

/// Lengths of the rows that a part of a linear has.
std::vector<float> lengths_of(std::span<const float> weight, int64_t in, const RowPattern& outputs) {
  std::vector<float> lengths(static_cast<size_t>(outputs.share(std::ssize(weight) / in)));
  for (int64_t out = 0; out < std::ssize(lengths); ++out)
    lengths[static_cast<size_t>(out)] = static_cast<float>(
        length_of(weight.subspan(static_cast<size_t>(outputs.place(out) * in), static_cast<size_t>(in))));
  return lengths;
}

/// This rank's part of them.
void write_part(const Parameter& own, std::span<const float> all, TrainingState& state) {
  const Box held = own.stored(), whole = whole_box(own.global_shape);
  std::vector<float> part(static_cast<size_t>(held.elements()));
  for_each_run(held, whole, held, [&](int64_t from, int64_t to, int64_t count) {
    std::copy_n(all.begin() + from, count, part.begin() + to);
  });
  state.write_master(own, part);
}

}  // namespace

double length_of(std::span<const float> row) {
  double squares = 0;
  for (const float weight : row) squares += static_cast<double>(weight) * static_cast<double>(weight);
  return std::sqrt(squares);
}

void initialize_magnitudes(const ParameterTable& table, InitScheme scheme, TrainingState& state,
                           const LoadBlock& load) {
  const Spec& spec = table.spec();
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const std::string name = "block." + std::to_string(layer) + ".";
    std::optional<ParameterTable> block;
    std::optional<TrainingState> weights;
    for (const Adapter& adapter : adapters_of(spec)) {
      const Parameter* own = adapter.magnitude ? table.look_up(adapter.magnitudes()) : nullptr;
      if (!own || !adapter.linear.starts_with(name)) continue;
      if (!block) {
        const Layout alone{
            {.first_layer = layer, .last_layer = layer + 1, .embedding = false, .head = false}, 0, 1, {}};
        block.emplace(base_of(spec), scheme, alone);
        weights.emplace(*block, DType::f32, false);
        load(*block, *weights);
      }
      const Parameter& weight = block->find(adapter.linear + ".weight");
      std::vector<float> values(static_cast<size_t>(weight.stored_shape.count()));
      weights->read_master(weight, values);
      write_part(*own, lengths_of(values, weight.global_shape[1], outputs_of(spec, adapter.part)), state);
    }
  }
}

}  // namespace trireme
