#pragma once
// The one list of a model's parameters, made from the Spec with nothing allocated. Initialisation, weight decay,
// sharding, checkpoints, import, export and the planner read it; nobody reaches a parameter by position.

#include <string>
#include <vector>

#include "model/spec.h"
#include "tensor/view.h"

namespace trireme {

enum class Init : uint8_t { normal, zeros, ones };

/// Standard deviations of a new model's matrices. L: layers, C: width. "Residual": of both linears that write to the
/// residual stream; scaled, its variance does not grow with depth.
enum class InitScheme : uint8_t {
  gpt2,  ///< 0.02; residual 0.02 / sqrt(2 L). Source: Radford et al. 2019
  bert,  ///< 0.02 for all. Source: Devlin et al. 2019
  opt,   ///< 0.006; residual 0.006 / sqrt(2 L). Source: Zhang et al. 2022
  neox,  ///< sqrt(2 / (5 C)); residual 2 / (L sqrt C). Source: Black et al. 2022
};

struct Parameter {
  std::string name;    ///< "embedding.token.weight", "block.3.attention.qkv.weight", ...
  Shape shape;         ///< as in memory: [out, in] for linears; vocabulary padded to Spec::vocabulary_rows
  Shape stored_shape;  ///< as in checkpoints: vocabulary without padding rows
  Init init = Init::normal;
  float init_std = 0.02f;
  bool decays = true;   ///< weight decay: tensors of two or more dims
  int tensor_dim = -1;  ///< dim that tensor parallelism cuts, -1: whole on every rank
  int stage_layer = 0;  ///< 0: embedding, 1..L: block, L + 1: final norm and head
  int64_t offset = 0;   ///< first element in the flat parameter order, a multiple of 32
  int64_t count() const { return shape.count(); }
};

/// A span of the flat gradient order; what backward reports and what a bucket covers.
struct ParameterRange {
  int64_t begin = 0, end = 0;
  bool empty() const { return begin == end; }
  bool operator==(const ParameterRange&) const = default;
};

/// Parameters in gradient-ready order: the order in which backward finishes them (head, final norm, last block ...
/// first block, embeddings). Flat arenas (weights, gradients, moments) hold them at Parameter::offset; gaps are zero.
class ParameterTable {
 public:
  explicit ParameterTable(const Spec& spec, InitScheme scheme = InitScheme::gpt2);

  const std::vector<Parameter>& all() const { return parameters_; }
  /// What backward finishes at a time, ascending and covering [0, gradient_count()): the head, the last block ... the
  /// first block, the embeddings.
  const std::vector<ParameterRange>& ready_ranges() const { return ready_ranges_; }
  const Parameter& find(const std::string& name) const;  ///< throws Error::data naming the nearest name
  int64_t flat_count() const { return flat_count_; }     ///< elements of a flat arena, gaps included
  /// Elements of the flat gradient array: flat_count() plus, when the head is tied, a second sum of the token
  /// embedding's shape behind it: the matrix gets one gradient from the head (first in backward, at its own offset) and
  /// one from the embedding (last); they are added once, at the end, by the optimizer.
  int64_t gradient_count() const { return gradient_count_; }
  bool tied() const { return gradient_count_ > flat_count_; }

  // Groups: indices in ready_ranges().
  size_t head_group() const { return 0; }
  size_t block_group(int64_t layer) const { return static_cast<size_t>(layers_ - layer); }
  size_t embedding_group() const { return ready_ranges_.size() - 1; }
  /// Weights of a group.
  ParameterRange weights_of(size_t group) const;
  /// The token matrix where the embedding reads it but the head's group holds it; else empty.
  ParameterRange tied_matrix() const;
  int64_t total() const;  ///< trained values: stored shapes, tied matrix once

 private:
  std::vector<Parameter> parameters_;
  std::vector<ParameterRange> ready_ranges_;
  int64_t layers_ = 0, flat_count_ = 0, gradient_count_ = 0;
};

/// Flat array of one element type over a table, with a view per parameter.
View view_of(View flat, const Parameter& parameter);

/// Told, in the same order on every rank, that no later work of this micro-batch touches these gradients.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  virtual void ready(ParameterRange range) = 0;
};

/// Makes weights readable where a rank does not hold all of them all of the time, in the order in which a stage uses
/// them; the same order on every rank. This one is for weights that are always there.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// Returns once the weights of the range can be read. A range may be needed again before it is done: it is readable
  /// until done() was called as often as need().
  virtual void need(ParameterRange) {}
  /// No layer reads them any more until they are needed again.
  virtual void done(ParameterRange) {}
};

}  // namespace trireme
