#pragma once
// Low-rank adapters of a model's linears (LoRA): y += scale B A dropout(x), A: [rank, in], B: [out, rank]. A matrix
// whose rows are several published modules (queries, keys, values; gates, ups) has an adapter for each of them that is
// adapted; those of one linear share one A of all their ranks, [sum of ranks, in], and dropout's mask. With magnitudes
// (DoRA) each output of W x + scale B A x is multiplied by magnitude / |row of W + scale B A|, a length that backward
// takes as a constant. Source: Hu et al. 2021; Liu et al. 2024, equations 5 and 11.

#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "ops/ops.h"

namespace trireme {

struct Spec;

/// The linears of a block, without its name: those that are there depend on its layer.
constexpr std::string_view kBlockLinears[] = {"attention.qkv", "attention.out", "mlp.in",
                                              "mlp.out",       "delta.in",      "delta.out"};

/// Which outputs of a linear have the adapter.
enum class AdapterPart : uint8_t {
  all,
  query,  ///< with the gates that follow queries
  key,
  value,
  gate,
  up,
  mixed,  ///< of a layer with a state: what the convolution takes, output gates, betas, decays
  output_gate,
  beta,
  decay
};
template <>
struct Names<AdapterPart> {
  static constexpr Named<AdapterPart> kAll[] = {
      {"all", AdapterPart::all},     {"query", AdapterPart::query},
      {"key", AdapterPart::key},     {"value", AdapterPart::value},
      {"gate", AdapterPart::gate},   {"up", AdapterPart::up},
      {"mixed", AdapterPart::mixed}, {"output-gate", AdapterPart::output_gate},
      {"beta", AdapterPart::beta},   {"decay", AdapterPart::decay}};
};

struct Adapter {
  std::string linear;  ///< "block.3.attention.qkv"
  AdapterPart part = AdapterPart::all;
  int64_t rank = 0;
  float scale = 1;
  bool magnitude = false;  ///< DoRA
  bool operator==(const Adapter&) const = default;

  std::string a() const { return linear + ".lora_A"; }  ///< its parameters: A, of all adapters of the linear,
  std::string b() const;                                ///< and its B,
  std::string magnitudes() const;                       ///< and one magnitude for each of its outputs
};

/// A parameter of an adapter.
inline bool is_adapter(std::string_view parameter) { return parameter.find(".lora_") != std::string_view::npos; }

/// Spec::adapters of these: "attention.qkv.query in 0-29: rank 16, scale 2; mlp.out in 0, 3: rank 8, scale 0.5,
/// magnitudes".
std::string adapters_text(std::vector<Adapter> adapters);
/// The inverse: by block, linear and part. Throws Error::config for other text, and for adapters that the model cannot
/// have.
std::vector<Adapter> adapters_of(const Spec& spec);
/// Those of one linear, in the order of their rows in its A.
std::vector<Adapter> adapters_of(const Spec& spec, std::string_view linear);

/// The outputs of a part among those of its linear.
RowPattern outputs_of(const Spec& spec, AdapterPart part);

/// The largest linear with adapters: sums of ranks, inputs and outputs of one tensor rank; 0 without adapters.
struct AdapterSizes {
  int64_t rank = 0, inputs = 0, outputs = 0;
  bool magnitudes = false;  ///< one of them has some
};
AdapterSizes adapter_sizes(const Spec& spec, int tensor_size);

}  // namespace trireme
