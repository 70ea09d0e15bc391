#include "model/train_flops.h"

#include <algorithm>

#include "model/adapters.h"

namespace trireme {
namespace {

/// Whether tokens are multiplied by the matrix: others are only looked up, or used once per sequence.
bool is_multiplied(const Spec& spec, const Parameter& parameter) {
  if (parameter.shape.dims() < 2) return false;
  const std::string& name = parameter.name;
  if (name == "embedding.token.weight") return spec.tied_head;
  return name.starts_with("block.") || name == "head.weight" || name == "head.transform.weight" ||
         name.ends_with(".project.weight");
}

}  // namespace

double train_flops_per_token(const ParameterTable& whole, int64_t sequence) {
  const Spec& spec = whole.spec();
  double flops = train_flops_per_token(spec, sequence);
  size_t last = 0;  // group of backward; the head computes the loss
  for (size_t group = 0; group < whole.ready_ranges().size(); ++group)
    if (!whole.ready_ranges()[group].empty()) last = group;
  for (const Parameter& parameter : whole.all()) {
    if (!is_multiplied(spec, parameter)) continue;
    const auto product = 2 * static_cast<double>(parameter.stored_shape.count());
    if (is_adapter(parameter.name)) flops += 3 * product;
    if (!parameter.trained()) flops -= product;
    if (parameter.group > last) flops -= product;
  }
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    if (whole.block_group(layer) <= last) continue;
    flops -= 4 * state_products(spec, layer);
    flops -= 8 * static_cast<double>(spec.attention_width()) * visible_keys(spec, layer, sequence);
  }
  return flops;
}

}  // namespace trireme
