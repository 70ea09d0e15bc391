#include "model/parameter_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr int64_t kOffsetMultiple = 32;  // flat arrays: a parameter starts on a 64-byte line even as bf16

struct InitStd {
  float matrices, residual;
};

InitStd init_std(InitScheme scheme, const Spec& spec) {
  const auto layers = static_cast<float>(spec.layers), width = static_cast<float>(spec.width);
  const auto scaled = [&](float std) { return InitStd{std, std / std::sqrt(2.0f * layers)}; };
  switch (scheme) {
    case InitScheme::gpt2:
      return scaled(0.02f);
    case InitScheme::bert:
      return {0.02f, 0.02f};
    case InitScheme::opt:
      return scaled(0.006f);
    case InitScheme::neox:
      return {std::sqrt(2.0f / (5.0f * width)), 2.0f / (layers * std::sqrt(width))};
  }
  return scaled(0.02f);
}

/// Collects parameters in gradient-ready order.
class Builder {
 public:
  Builder(const Spec& spec, InitScheme scheme) : spec_(spec), std_(init_std(scheme, spec)) {}

  void add(std::string name, Shape shape, Init init, float std, int tensor_dim, int stage_layer) {
    Parameter p;
    p.name = std::move(name);
    p.shape = p.stored_shape = shape;
    p.init = init;
    p.init_std = std;
    p.decays = shape.dims() >= 2;
    p.tensor_dim = tensor_dim;
    p.stage_layer = stage_layer;
    p.offset = offset_;
    offset_ += (p.count() + kOffsetMultiple - 1) / kOffsetMultiple * kOffsetMultiple;
    parameters_.push_back(std::move(p));
  }

  void add_linear(const std::string& name, int64_t out, int64_t in, bool bias, float std, int tensor_dim,
                  int stage_layer) {
    if (bias) add(name + ".bias", {out}, Init::zeros, 0, tensor_dim == 0 ? 0 : -1, stage_layer);
    add(name + ".weight", {out, in}, Init::normal, std, tensor_dim, stage_layer);
  }

  void add_norm(const std::string& name, int stage_layer) {
    if (spec_.biases.norm) add(name + ".bias", {spec_.width}, Init::zeros, 0, -1, stage_layer);
    add(name + ".weight", {spec_.width}, Init::ones, 0, -1, stage_layer);
  }

  /// A matrix with one row per token id: padding rows exist in memory only.
  void add_vocabulary(const std::string& name, int stage_layer) {
    add(name, {spec_.vocabulary_rows, spec_.token_width()}, Init::normal, std_.matrices, 0, stage_layer);
    parameters_.back().stored_shape = {spec_.vocabulary, spec_.token_width()};
  }

  void add_decoder(int layer) {
    add_vocabulary(spec_.tied_head ? "embedding.token.weight" : "head.weight", spec_.tied_head ? 0 : layer);
    if (spec_.projected()) add_linear("head.project", spec_.token_width(), spec_.width, false, std_.matrices, 0, layer);
    if (spec_.head != HeadKind::masked_language_model) return;
    add("head.bias", {spec_.vocabulary_rows}, Init::zeros, 0, 0, layer);
    parameters_.back().stored_shape = {spec_.vocabulary};
    add_norm("head.norm", layer);
    add_linear("head.transform", spec_.width, spec_.width, true, std_.matrices, -1, layer);
  }

  void add_classifier(int layer) {
    add_linear("head.out", spec_.classes, spec_.width, true, std_.matrices, -1, layer);
    add_linear("head.hidden", spec_.width, spec_.width, true, std_.matrices, -1, layer);
  }

  /// The token matrix is last: few of its rows have a gradient, which the exchange makes use of.
  void add_embeddings() {
    if (spec_.embedding_norm) add_norm("embedding.norm", 0);
    if (spec_.position == Position::learned)
      add("embedding.position.weight", {spec_.position_offset + spec_.context, spec_.width}, Init::normal,
          std_.matrices, -1, 0);
    if (spec_.token_types > 0)
      add("embedding.type.weight", {spec_.token_types, spec_.width}, Init::normal, std_.matrices, -1, 0);
    if (spec_.projected())
      add_linear("embedding.project", spec_.width, spec_.token_width(), false, std_.matrices, -1, 0);
    if (!spec_.tied_head) add_vocabulary("embedding.token.weight", 0);
  }

  void add_block(int64_t index) {
    const int layer = static_cast<int>(index) + 1;
    const std::string name = fmt::format("block.{}", index);
    const int64_t width = spec_.width;
    add_linear(name + ".mlp.out", width, spec_.inner_width, spec_.biases.mlp_out, std_.residual, 1, layer);
    add_linear(name + ".mlp.in", spec_.inner_width, width, spec_.biases.mlp_in, std_.matrices, 0, layer);
    add_norm(name + ".norm2", layer);
    add_linear(name + ".attention.out", width, width, spec_.biases.attention_out, std_.residual, 1, layer);
    add_linear(name + ".attention.qkv", 3 * width, width, spec_.biases.qkv, std_.matrices, 0, layer);
    add_norm(name + ".norm1", layer);
  }

  std::vector<Parameter> take() { return std::move(parameters_); }
  int64_t offset() const { return offset_; }

 private:
  const Spec& spec_;
  InitStd std_;
  std::vector<Parameter> parameters_;
  int64_t offset_ = 0;
};

}  // namespace

ParameterTable::ParameterTable(const Spec& spec, InitScheme scheme) : layers_(spec.layers) {
  spec.validate();
  Builder builder(spec, scheme);
  int64_t finished = 0;
  const auto close_range = [&](int64_t end) { ready_ranges_.push_back({std::exchange(finished, end), end}); };

  const int head_layer = static_cast<int>(spec.layers) + 1;
  spec.has_decoder() ? builder.add_decoder(head_layer) : builder.add_classifier(head_layer);
  if (spec.final_norm) builder.add_norm("norm", head_layer);
  close_range(builder.offset());
  for (int64_t i = spec.layers - 1; i >= 0; --i) {
    builder.add_block(i);
    close_range(builder.offset());
  }
  builder.add_embeddings();
  flat_count_ = gradient_count_ = builder.offset();
  parameters_ = builder.take();
  if (spec.tied_head) gradient_count_ += find("embedding.token.weight").count();
  close_range(gradient_count_);
}

ParameterRange ParameterTable::weights_of(size_t group) const {
  const ParameterRange range = ready_ranges_[group];
  return {std::min(range.begin, flat_count_), std::min(range.end, flat_count_)};
}

ParameterRange ParameterTable::tied_matrix() const {
  if (!tied()) return {};
  const Parameter& matrix = find("embedding.token.weight");
  return {matrix.offset, matrix.offset + matrix.count()};
}

const Parameter& ParameterTable::find(const std::string& name) const {
  for (const Parameter& p : parameters_) {
    if (p.name == name) return p;
  }
  std::vector<std::string> names;
  names.reserve(parameters_.size());
  for (const Parameter& p : parameters_) names.push_back(p.name);
  fail(ErrorKind::data, "the model has no parameter \"{}\"; the nearest is \"{}\"", name, nearest(name, names));
}

int64_t ParameterTable::total() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.stored_shape.count();
  return n;
}

View view_of(View flat, const Parameter& parameter) {
  if (flat.empty()) return {};
  auto* data = static_cast<std::byte*>(flat.data()) + static_cast<size_t>(parameter.offset) * size_of(flat.dtype());
  return {data, flat.dtype(), parameter.shape};
}

}  // namespace trireme
