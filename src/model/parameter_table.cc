#include "model/parameter_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/numbers.h"
#include "base/text.h"
#include "model/adapters.h"

namespace trireme {

ModelPart ModelPart::of(const Spec& spec) const {
  ModelPart part = *this;
  if (last_layer == kLast) part.last_layer = spec.layers;
  require(0 <= part.first_layer && part.first_layer <= part.last_layer && part.last_layer <= spec.layers,
          ErrorKind::config, "part of a model: blocks {} to {}, the model has {}", part.first_layer, part.last_layer,
          spec.layers);
  require(!embedding || part.first_layer == 0, ErrorKind::config,
          "part of a model: it has the embedding but begins at block {}; the embedding goes with block 0",
          part.first_layer);
  require(!head || part.last_layer == spec.layers, ErrorKind::config,
          "part of a model: it has the head but ends at block {} of {}; the head goes with the last block",
          part.last_layer, spec.layers);
  require(embedding || head || part.layers() > 0, ErrorKind::config,
          "part of a model: it has no block, no embedding and no head; use fewer stages than the model's {} blocks",
          spec.layers);
  return part;
}

namespace {

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

void require_divides(int tensor, int64_t size, const char* what) {
  require(size % tensor == 0, ErrorKind::config, "tensor {} does not divide {} {}; {} do", tensor, size, what,
          near_divisors(size, tensor));
}

/// The dim that tensor parallelism cuts.
enum class Cut : int { none = -1, rows = 0, columns = 1 };

/// Collects parameters in gradient-ready order.
class Builder {
 public:
  Builder(const Spec& spec, InitScheme scheme, const Layout& layout)
      : spec_(spec), layout_(layout), std_(init_std(scheme, spec)) {}

  void add_head() {
    spec_.has_decoder() ? add_decoder() : add_classifier();
    if (spec_.final_norm) add_norm("norm");
  }

  void add_block(int64_t index) {
    const std::string name = fmt::format("block.{}", index);
    const int64_t width = spec_.width;
    if (spec_.norms_branches()) add_norm(name + ".branch_norm2");
    add_linear(name + ".mlp.out", width, spec_.inner_width, spec_.biases.mlp_out, std_.residual, Cut::columns);
    add_linear(name + ".mlp.in", spec_.mlp_in_width(), width, spec_.biases.mlp_in, std_.matrices, Cut::rows);
    if (spec_.norm_place != NormPlace::branch) add_norm(name + ".norm2");
    if (spec_.norms_branches()) add_norm(name + ".branch_norm1");
    spec_.has_state(index) ? add_delta(name + ".delta") : add_attention(name + ".attention");
    if (spec_.norm_place != NormPlace::branch) add_norm(name + ".norm1");
  }

  /// The token matrix is last: few of its rows have a gradient, which the exchange makes use of.
  void add_embeddings() {
    if (spec_.embedding_norm) add_norm("embedding.norm");
    if (spec_.position == Position::learned)
      add("embedding.position.weight", {spec_.position_offset + spec_.context, spec_.width}, Init::normal,
          std_.matrices);
    if (spec_.token_types > 0)
      add("embedding.type.weight", {spec_.token_types, spec_.width}, Init::normal, std_.matrices);
    if (spec_.projected()) add_linear("embedding.project", spec_.width, spec_.token_width(), false, std_.matrices);
    if (!(spec_.tied_head && layout_.part.head)) add_vocabulary("embedding.token.weight");
  }

  /// Ends the group of the parameters added since the last call.
  void end_group() { ++group_; }
  std::vector<Parameter> take() { return std::move(parameters_); }

 private:
  void add(std::string name, const Shape& shape, Init init, float std, Cut cut = Cut::none) {
    Parameter p;
    p.name = std::move(name);
    p.global_shape = shape;
    p.box = cut == Cut::none ? whole_box(shape) : share_of(shape, static_cast<int>(cut));
    p.shape = p.stored_shape = p.box.count;
    p.init = init;
    p.init_std = std;
    p.rule = shape.dims() >= 2 ? UpdateRule::adamw : UpdateRule::adamw_no_decay;
    p.group = group_;
    parameters_.push_back(std::move(p));
  }

  Box share_of(const Shape& shape, int dim) const {
    const int64_t share = shape[dim] / layout_.tensor_size;
    const Box all = whole_box(shape);
    return {all.begin.with(dim, share * layout_.tensor_rank), all.count.with(dim, share)};
  }

  void add_linear(const std::string& name, int64_t out, int64_t in, bool bias, float std, Cut cut = Cut::none) {
    if (bias) add(name + ".bias", {out}, Init::zeros, 0, cut == Cut::rows ? cut : Cut::none);
    add(name + ".weight", {out, in}, Init::normal, std, cut);
    add_adapters(name, out, in, cut);
  }

  /// A as PyTorch initialises a linear, B 0, so that the model is the base model where it has no magnitudes.
  void add_adapters(const std::string& linear, int64_t out, int64_t in, Cut cut) {
    int64_t rank = 0;
    for (const Adapter& adapter : adapters_of(spec_, linear)) {
      const int64_t outputs = outputs_of(spec_, adapter.part).share(out);
      if (adapter.magnitude) {
        add(adapter.magnitudes(), {outputs}, Init::ones, 0, cut == Cut::rows ? cut : Cut::none);
        parameters_.back().layer_sums = cut == Cut::columns;
      }
      add(adapter.b(), {outputs, adapter.rank}, Init::zeros, 0, cut == Cut::rows ? cut : Cut::none);
      parameters_.back().layer_sums = cut == Cut::columns;
      rank += adapter.rank;
    }
    if (rank == 0) return;
    add(linear + ".lora_A", {rank, in}, Init::uniform, 1 / std::sqrt(static_cast<float>(in)),
        cut == Cut::columns ? cut : Cut::none);
    parameters_.back().layer_sums = cut == Cut::rows;
  }

  void add_attention(const std::string& name) {
    add_linear(name + ".out", spec_.width, spec_.attention_width(), spec_.biases.attention_out, std_.residual,
               Cut::columns);
    if (spec_.query_keys != QueryKeys::plain) add_query_key_gains(name);
    add_linear(name + ".qkv", spec_.qkv_width(), spec_.width, spec_.biases.qkv, std_.matrices, Cut::rows);
  }

  /// Decays as Mamba-2 begins with them; a convolution's weights as those of PyTorch.
  void add_delta(const std::string& name) {
    add_linear(name + ".out", spec_.width, spec_.delta_value_width(), false, std_.residual, Cut::columns);
    add(name + ".norm.weight", {spec_.delta_value_size}, Init::ones, 0);
    parameters_.back().layer_sums = true;
    add(name + ".decay_bias", {spec_.delta_value_heads}, Init::ones, 0, Cut::rows);
    add(name + ".decay_log", {spec_.delta_value_heads}, Init::log_uniform, 0, Cut::rows);
    add(name + ".convolution.weight", {spec_.delta_mixed_width(), 1, spec_.delta_taps}, Init::uniform,
        1 / std::sqrt(static_cast<float>(spec_.delta_taps)), Cut::rows);
    add_linear(name + ".in", spec_.delta_width(), spec_.width, false, std_.matrices, Cut::rows);
  }

  void add_norm(const std::string& name) {
    if (spec_.biases.norm) add(name + ".bias", {spec_.width}, Init::zeros, 0);
    add(name + ".weight", {spec_.width}, gain_init(), 0);
  }

  /// A gain of 1.
  Init gain_init() const { return spec_.norm_offset == 1 ? Init::zeros : Init::ones; }

  void add_query_key_gains(const std::string& name) {
    const bool of_head = spec_.query_keys == QueryKeys::head;
    for (const auto& [gain, heads] : {std::pair{".k_norm.weight", spec_.kv_heads()}, {".q_norm.weight", spec_.heads}}) {
      add(name + gain, {of_head ? spec_.head_dim() : heads * spec_.head_dim()}, gain_init(), 0,
          of_head ? Cut::none : Cut::rows);
      parameters_.back().layer_sums = of_head;
    }
  }

  /// A matrix with one row per token id.
  void add_vocabulary(const std::string& name) {
    add(name, {spec_.vocabulary_rows, spec_.token_width()}, Init::normal, std_.matrices, Cut::rows);
    leave_out_padding();
  }

  /// Padding rows of the parameter added last exist in memory only.
  void leave_out_padding() {
    Parameter& p = parameters_.back();
    p.stored_shape = overlap(p.box, whole_box(p.global_shape.with(0, spec_.vocabulary))).count;
  }

  void add_decoder() {
    add_vocabulary(spec_.tied_head ? "embedding.token.weight" : "head.weight");
    if (spec_.projected()) add_linear("head.project", spec_.token_width(), spec_.width, false, std_.matrices);
    if (spec_.head != HeadKind::masked_language_model) return;
    add("head.bias", {spec_.vocabulary_rows}, Init::zeros, 0, Cut::rows);
    leave_out_padding();
    add_norm("head.norm");
    add_linear("head.transform", spec_.width, spec_.width, true, std_.matrices);
  }

  void add_classifier() {
    add_linear("head.out", spec_.classes, spec_.width, true, std_.matrices);
    add_linear("head.hidden", spec_.width, spec_.width, true, std_.matrices);
  }

  const Spec& spec_;
  const Layout& layout_;
  InitStd std_;
  std::vector<Parameter> parameters_;
  size_t group_ = 0;
};

/// Places the parameters that are trained, or those that are not, from `offset` on, and sets their range in each group.
/// Returns their end.
int64_t place(std::vector<Parameter>& parameters, bool trained, int64_t offset, std::vector<WeightRanges>& groups) {
  const auto range_of = [&](size_t group) -> ParameterRange& {
    return trained ? groups[group].trained : groups[group].frozen;
  };
  size_t group = 0;
  if (!groups.empty()) range_of(0).begin = offset;
  const auto end_groups = [&](size_t next) {
    for (; group < next; ++group) {
      range_of(group).end = offset;
      if (group + 1 < groups.size()) range_of(group + 1).begin = offset;
    }
  };
  for (Parameter& p : parameters) {
    end_groups(p.group);
    if (p.trained() != trained) continue;
    p.offset = offset;
    offset += (p.count() + kOffsetMultiple - 1) / kOffsetMultiple * kOffsetMultiple;
  }
  end_groups(groups.size());
  return offset;
}

template <class V>
V part_of(V flat, int64_t offset, const Shape& shape) {
  if (flat.empty()) return {};
  return flat.rows_slice(offset, shape.count()).reshape(shape);
}

}  // namespace

Layout Layout::of(const Spec& spec) const {
  Layout layout = *this;
  layout.part = part.of(spec);
  for (ModelPart& chunk : layout.chunks) chunk = chunk.of(spec);
  require(tensor_size >= 1 && tensor_rank >= 0 && tensor_rank < tensor_size, ErrorKind::config,
          "tensor rank {} of {}: expected 0 to {}", tensor_rank, tensor_size, tensor_size - 1);
  require_divides(tensor_size, spec.kv_heads(), spec.group() > 1 ? "heads of keys" : "heads");
  if (spec.has_states()) require_divides(tensor_size, spec.delta_key_heads, "key heads of layers with a state");
  require_divides(tensor_size, spec.inner_width, "columns of the MLP's inner width");
  require_divides(tensor_size, spec.vocabulary_rows, "rows of the token matrix");
  return layout;
}

std::span<const StateKind> states_of(UpdateRule rule) {
  static constexpr StateKind kAdam[] = {{kAdamM}, {kAdamV}};
  switch (rule) {
    case UpdateRule::adamw:
    case UpdateRule::adamw_no_decay:
      return kAdam;
    case UpdateRule::frozen:
      break;
  }
  return {};
}

ParameterTable::ParameterTable(const Spec& spec, InitScheme scheme, const Layout& layout, const Trained& trained,
                               StatesOfRules states)
    : spec_(spec), trained_(trained), states_(states) {
  spec.validate();
  layout_ = layout.of(spec);
  const ModelPart& part = layout_.part;
  Builder builder(spec, scheme, layout_);
  const auto close_group = [&] {
    builder.end_group();
    weights_.emplace_back();
  };
  if (part.head) {
    builder.add_head();
    close_group();
  }
  const std::vector<ModelPart> parts = layout_.parts();
  for (auto own = parts.rbegin(); own != parts.rend(); ++own) {
    for (int64_t i = own->last_layer - 1; i >= own->first_layer; --i) {
      builder.add_block(i);
      close_group();
    }
  }
  if (part.embedding) {
    builder.add_embeddings();
    close_group();
  }
  parameters_ = builder.take();
  for (Parameter& p : parameters_) {
    if (!trained.includes(p.name)) p.rule = UpdateRule::frozen;
    p.states = states(p.rule);
  }
  trained_count_ = gradient_count_ = place(parameters_, true, 0, weights_);
  flat_count_ = place(parameters_, false, trained_count_, weights_);
  for (const WeightRanges& weights : weights_) ready_ranges_.push_back(weights.trained);
  if (!part.embedding || !part.head || !spec.tied_head) return;
  const Parameter& matrix = find("embedding.token.weight");
  if (!matrix.trained()) return;
  gradient_count_ += matrix.count();
  ready_ranges_.back().end = gradient_count_;
}

bool ParameterTable::is_whole() const { return layout_ == Layout().of(spec_); }

size_t ParameterTable::block_group(int64_t layer) const {
  int64_t behind = layout_.part.head ? 1 : 0;  // groups that are ready before
  for (const ModelPart& part : layout_.parts())
    behind += std::max<int64_t>(0, part.last_layer - 1 - std::max(layer, part.first_layer - 1));
  return static_cast<size_t>(behind);
}

std::vector<ParameterRange> ParameterTable::ready_ranges_of(const ModelPart& part) const {
  std::vector<ParameterRange> ranges;
  if (part.head) ranges.push_back(ready_ranges_[head_group()]);
  for (int64_t i = part.last_layer - 1; i >= part.first_layer; --i) ranges.push_back(ready_ranges_[block_group(i)]);
  if (part.embedding) ranges.push_back(ready_ranges_[embedding_group()]);
  return ranges;
}

WeightRanges ParameterTable::tied_matrix() const {
  if (!spec_.tied_head || !layout_.part.embedding || !layout_.part.head) return {};
  const Parameter& matrix = find("embedding.token.weight");
  const ParameterRange range{matrix.offset, matrix.offset + matrix.count()};
  return matrix.trained() ? WeightRanges{range, {}} : WeightRanges{{}, range};
}

const Parameter* ParameterTable::look_up(std::string_view name) const {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  return found == parameters_.end() ? nullptr : &*found;
}

const Parameter& ParameterTable::find(const std::string& name) const {
  if (const Parameter* found = look_up(name)) return *found;
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

int64_t ParameterTable::total_trained() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.trained() ? p.stored_shape.count() : 0;
  return n;
}

View view_of(View flat, const Parameter& parameter) { return part_of(flat, parameter.offset, parameter.shape); }

View gradient_of(View flat, const Parameter& parameter) {
  return parameter.trained() ? part_of(flat, parameter.offset, parameter.shape) : View();
}

ConstView view_of(ConstView flat, const Parameter& parameter) {
  return part_of(flat, parameter.offset, parameter.shape);
}

ConstView gradient_of(ConstView flat, const Parameter& parameter) {
  return parameter.trained() ? part_of(flat, parameter.offset, parameter.shape) : ConstView();
}

}  // namespace trireme
