#pragma once
// The one list of the parameters that a process holds, made from the Spec and its place in the mesh with nothing
// allocated. Initialisation, the optimizer, sharding, checkpoints, import, export and the planner read it; no code
// accesses a parameter by position.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/spec.h"
#include "model/trained.h"
#include "tensor/box.h"

namespace trireme {

// Which part of a model a process holds. The model is the list {embedding, blocks, head}; a part is a slice of it.

struct ModelPart {
  static constexpr int64_t kLast = std::numeric_limits<int64_t>::max();

  int64_t first_layer = 0, last_layer = kLast;  ///< blocks [first_layer, last_layer); kLast: to the model's last one
  bool embedding = true;                        ///< holds the embedding; only a part that begins at block 0 does
  bool head = true;                             ///< holds final norm and head; only a part that ends at the last block
  bool operator==(const ModelPart&) const = default;

  int64_t layers() const { return last_layer - first_layer; }
  /// The same with kLast replaced. Throws Error::config naming what does not fit the model.
  ModelPart of(const Spec& spec) const;
};

/// Flat arrays: a parameter starts on a 64-byte line, even as bf16.
inline constexpr int64_t kOffsetMultiple = 32;

enum class Init : uint8_t {
  normal,
  zeros,
  ones,
  uniform,
  log_uniform  ///< logarithms of values in (0, 16)
};

/// How the optimizer changes a parameter, which determines the states that it keeps of it.
enum class UpdateRule : uint8_t {
  adamw,           ///< AdamW with weight decay: tensors of two or more dims
  adamw_no_decay,  ///< AdamW without: biases and norms
  frozen,          ///< not at all: no gradient and no states
};

/// What a state has a value of: each element of the parameter, or each row (dim 0), equal on all ranks that hold a part
/// of the row.
enum class StateExtent : uint8_t { element, row };

/// An array that the optimizer keeps of a parameter: f32, also in checkpoints, whose format has the names.
struct StateKind {
  std::string_view name;
  StateExtent extent = StateExtent::element;
  bool operator==(const StateKind&) const = default;
};

/// The running means that AdamW keeps of the gradient and of its square.
inline constexpr std::string_view kAdamM = "adam.m", kAdamV = "adam.v";

/// The states of the rules of this program.
std::span<const StateKind> states_of(UpdateRule rule);
using StatesOfRules = std::span<const StateKind> (*)(UpdateRule);

/// The part of a model that one process holds: some of its layers, and of each cut tensor one of tensor_size equal
/// boxes. Cut by rows (dim 0): attention.qkv, whose rows are grouped by key head, mlp.in, whose gates lie beside what
/// they gate, gains of a projection's queries and keys, delta.in, whose rows are grouped by key
/// head, what a layer with a state has of each channel or head, and tensors with a row per token id; by columns (dim
/// 1): attention.out, delta.out and mlp.out, whose biases are not cut. Of adapters B is cut as the rows of its linear,
/// A as the columns. Source: Shoeybi et al. 2019, section 3.
struct Layout {
  ModelPart part;  ///< of several chunks from where the first one begins to where the last one ends
  int tensor_rank = 0, tensor_size = 1;
  std::vector<ModelPart> chunks{};  ///< the parts that it has, ascending, where they are several
  bool operator==(const Layout&) const = default;

  /// The parts that it has: at least one.
  std::vector<ModelPart> parts() const { return chunks.empty() ? std::vector{part} : chunks; }
  /// The same with one of them alone.
  Layout chunk(size_t index) const { return {parts()[index], tensor_rank, tensor_size, {}}; }

  /// This rank's part of so many heads, inner columns or token rows, and the first of it.
  int64_t share(int64_t all) const { return all / tensor_size; }
  int64_t first(int64_t all) const { return tensor_rank * share(all); }

  /// The same with ModelPart::kLast replaced. Throws Error::config naming what does not fit the model and the sizes
  /// that do.
  Layout of(const Spec& spec) const;
};

struct Parameter {
  std::string name;    ///< "embedding.token.weight", "block.3.attention.qkv.weight", ...
  Shape global_shape;  ///< of the whole tensor: [out, in] for linears; vocabulary padded to Spec::vocabulary_rows
  Box box;             ///< what this table holds of it
  Shape shape;         ///< of the box, as in memory
  Shape stored_shape;  ///< of the box, as in checkpoints: vocabulary without padding rows, which are its last ones
  Init init = Init::normal;
  float init_std = 0.02f;  ///< uniform: values are in +-init_std
  UpdateRule rule = UpdateRule::adamw;
  std::span<const StateKind> states{};  ///< that the rule keeps
  /// Every tensor rank uses it in all rows for its own part of a layer, which sums its gradient over the ranks itself.
  bool layer_sums = false;
  size_t group = 0;  ///< index in ParameterTable::ready_ranges(): when its gradient is ready
  /// First weight in the flat order, a multiple of 32. If trained, also first gradient and value of each optimizer
  /// state.
  int64_t offset = 0;

  bool trained() const { return rule != UpdateRule::frozen; }
  int64_t count() const { return shape.count(); }
  bool is_whole() const { return shape == global_shape; }
  /// The box without padding rows, in the coordinates of the whole tensor; empty where it has nothing else.
  Box stored() const { return {box.begin, stored_shape}; }
};

/// A span of the flat gradient order, as backward reports it and a bucket covers it.
struct ParameterRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  bool operator==(const ParameterRange&) const = default;
};

/// Weights that a layer reads: those of its parameters that are trained, and those that are frozen. Each may be empty.
struct WeightRanges {
  ParameterRange trained, frozen;
  bool operator==(const WeightRanges&) const = default;
};

/// Parameters in gradient-ready order: the order in which backward finishes them (head, final norm, last block ...
/// first block, embeddings). Flat arenas hold them at their offsets, all trained ones before all frozen ones: weights
/// are of both, gradients and optimizer states end with the trained ones. Gaps are zero.
class ParameterTable {
 public:
  /// Of the whole model, or of a layout's part. Throws Error::config for a layout that the model cannot have.
  explicit ParameterTable(const Spec& spec, InitScheme scheme = InitScheme::gpt2, const Layout& layout = {},
                          const Trained& trained = {}, StatesOfRules states = states_of);
  /// Of the whole model, with the same parameters trained and the same states.
  ParameterTable whole() const { return ParameterTable(spec_, InitScheme::gpt2, {}, trained_, states_); }

  const Spec& spec() const { return spec_; }
  const Trained& trained() const { return trained_; }
  const Layout& layout() const { return layout_; }
  bool is_whole() const;  ///< of the whole model
  const std::vector<Parameter>& all() const { return parameters_; }
  /// The ranges that backward finishes, ascending and covering [0, gradient_count()): the head, the last block ... the
  /// first block, the embeddings; only those in the layout. A group without trained parameters has an empty one.
  const std::vector<ParameterRange>& ready_ranges() const { return ready_ranges_; }
  const Parameter& find(const std::string& name) const;   ///< throws Error::data naming the nearest name
  const Parameter* look_up(std::string_view name) const;  ///< null: the table does not have it
  int64_t flat_count() const { return flat_count_; }      ///< elements of the flat weights, gaps included
  /// Elements of a flat optimizer state, gaps included: [0, trained_count()) of the flat weights are trained.
  int64_t trained_count() const { return trained_count_; }
  /// Elements of the flat gradient array: trained_count() plus, where embedding and tied head are both here and
  /// trained, a second sum of the token embedding's shape after it: the matrix gets one gradient from the head (first
  /// in backward, at its own offset) and one from the embedding (last); they are added once, at the end, by the
  /// optimizer.
  int64_t gradient_count() const { return gradient_count_; }
  bool sums_twice() const { return gradient_count_ > trained_count_; }  ///< it has the second sum

  // Groups: indices in ready_ranges(), of the layout's parts.
  size_t head_group() const { return 0; }
  size_t block_group(int64_t layer) const;  ///< `layer` counts from the whole model's first block
  /// Ready ranges of one of the layout's parts.
  std::vector<ParameterRange> ready_ranges_of(const ModelPart& part) const;
  size_t embedding_group() const { return ready_ranges_.size() - 1; }
  /// Weights of a group.
  const WeightRanges& weights_of(size_t group) const { return weights_[group]; }
  /// The token matrix where the embedding reads it but the head's group holds it; else empty.
  WeightRanges tied_matrix() const;
  int64_t total() const;          ///< values of the stored shapes, tied matrix once
  int64_t total_trained() const;  ///< those of trained parameters

 private:
  Spec spec_;
  Layout layout_;
  Trained trained_;
  StatesOfRules states_;
  std::vector<Parameter> parameters_;
  std::vector<ParameterRange> ready_ranges_;
  std::vector<WeightRanges> weights_;  ///< by group
  int64_t flat_count_ = 0, trained_count_ = 0, gradient_count_ = 0;
};

/// A parameter's part of a flat array of weights. Empty for an empty array.
View view_of(View flat, const Parameter& parameter);
ConstView view_of(ConstView flat, const Parameter& parameter);
/// A parameter's part of the flat array of gradients or of an optimizer state; empty where it is frozen, too.
View gradient_of(View flat, const Parameter& parameter);
ConstView gradient_of(ConstView flat, const Parameter& parameter);

/// Told, in the same order on every rank, of the gradients that a backward makes, a ready range at a time.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  /// They are written from now on. Returns once there is room for them.
  virtual void begin(ParameterRange) {}
  /// No later work of this micro-batch touches them.
  virtual void ready(ParameterRange range) = 0;
};

/// Makes weights readable where a rank does not hold all of them all of the time, in the order in which a stage uses
/// them; the same order on every rank. This one is for weights that are always there.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Returns once the weights of the range can be read. A range may be needed again before it is done: it is readable
  /// until done() was called as often as need(). next: the ranges needed after it, in this call order; empty: unknown,
  /// or weights change before.
  virtual void need(ParameterRange, ParameterRange /*next*/) {}
  /// Work already issued to the device's stream reads them; no later layer does until they are needed again.
  virtual void done(ParameterRange) {}
};

/// A layer reads its weights for as long as this lives.
class Reading {
 public:
  Reading(WeightSource& source, const WeightRanges& ranges, const WeightRanges& next = {})
      : source_(source), ranges_(ranges) {
    if (!ranges_.trained.empty()) source_.need(ranges_.trained, next.trained);
    if (!ranges_.frozen.empty()) source_.need(ranges_.frozen, next.frozen);
  }
  ~Reading() {
    for (const ParameterRange& range : {ranges_.trained, ranges_.frozen})
      if (!range.empty()) source_.done(range);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  WeightSource& source_;
  WeightRanges ranges_;
};

}  // namespace trireme
