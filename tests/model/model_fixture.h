#pragma once
// A small model with all its arrays, on any backend, for tests.

#include <cmath>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "model/stage.h"

namespace trireme {

inline Spec small_spec() {
  Spec spec;
  spec.vocabulary = 11;
  spec.vocabulary_rows = 16;
  spec.context = 8;
  spec.layers = 2;
  spec.heads = 2;
  spec.width = 8;
  spec.inner_width = 20;
  return spec;
}

/// Packed sequences of the given lengths with random tokens and types; the first target of each sequence is not
/// counted. A classifier's batch has a class and a value per sequence.
struct TestBatch {
  std::vector<int32_t> tokens, positions, types, targets, offsets{0}, first_positions;
  std::vector<int64_t> samples, first_samples;
  std::vector<double> values;
  std::vector<float> narrow_values;
  Batch batch;

  TestBatch(const Spec& spec, const std::vector<int>& lengths, uint64_t seed) {
    RandomStream random(seed);
    for (size_t s = 0; s < lengths.size(); ++s) {
      for (int t = 0; t < lengths[s]; ++t) {
        tokens.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(spec.vocabulary))));
        targets.push_back(
            t == 0 && lengths[s] > 1 ? -1 : static_cast<int32_t>(random.below(static_cast<uint64_t>(spec.vocabulary))));
        positions.push_back(t);
        samples.push_back(static_cast<int64_t>(100 + s));
        types.push_back(spec.token_types > 0 ? (t + static_cast<int>(s)) % static_cast<int>(spec.token_types) : 0);
      }
      first_samples.push_back(static_cast<int64_t>(100 + s));
      first_positions.push_back(0);
      narrow_values.push_back(0.5f - static_cast<float>(s));
      values.push_back(static_cast<double>(narrow_values.back()));
      offsets.push_back(static_cast<int32_t>(tokens.size()));
    }
    const auto rows = static_cast<int64_t>(tokens.size()), sequences = static_cast<int64_t>(lengths.size());
    if (spec.head == HeadKind::classifier) {
      targets.clear();
      for (int64_t s = 0; s < sequences; ++s) targets.push_back(static_cast<int32_t>(s % spec.classes));
    }
    batch.types = View(std::span(types), {rows});
    batch.first_samples = View(std::span(first_samples), {sequences});
    batch.first_positions = View(std::span(first_positions), {sequences});
    batch.tokens = View(std::span(tokens), {rows});
    batch.targets = View(std::span(targets), {static_cast<int64_t>(targets.size())});
    batch.positions = View(std::span(positions), {rows});
    batch.samples = View(std::span(samples), {rows});
    batch.offsets = View(std::span(offsets), {static_cast<int64_t>(offsets.size())});
  }
  TestBatch(const TestBatch&) = delete;
  /// The batch for operators whose statistics are f64 (reference) or f32.
  Batch with_values(bool wide) {
    Batch out = batch;
    const auto sequences = batch.sequences();
    out.values = wide ? View(std::span(values), {sequences}) : View(std::span(narrow_values), {sequences});
    return out;
  }
};

/// Weights and gradients of a model as plain arrays: T is double (reference) or float (cpu).
template <class T>
struct TestModel {
  ParameterTable table;
  std::vector<T> weights, gradients;
  ParameterViews views;

  explicit TestModel(const Spec& spec, uint64_t seed = 7, const Trained& trained = {})
      : table(spec, InitScheme::gpt2, {}, trained) {
    const ParameterTable all(spec);  // values do not depend on what is trained
    weights.assign(static_cast<size_t>(table.flat_count()), T{0});
    gradients.assign(static_cast<size_t>(table.gradient_count()), T{0});
    for (const Parameter& p : table.all()) {
      const int64_t stored = p.stored_shape.count();  // padding rows stay zero
      for (int64_t i = 0; i < stored; ++i) {
        // Values are exact in f32 and large enough that every layer affects the result.
        const auto key = static_cast<uint64_t>(all.find(p.name).offset);
        const double noise = 0.3 * normal_at(mix_key(seed, key), static_cast<uint64_t>(i));
        weights[static_cast<size_t>(p.offset + i)] =
            static_cast<T>(static_cast<float>(noise + (p.init == Init::ones ? 1.0 : 0.0)));
      }
    }
    views.table = &table;
    views.weights = View(std::span(weights), {table.flat_count()});
    views.gradients = View(std::span(gradients), {table.gradient_count()});
  }
  /// Gradient of a parameter, the tied matrix' two sums added.
  std::vector<double> gradient(const Parameter& p) const {
    std::vector<double> out(static_cast<size_t>(p.count()));
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = static_cast<double>(gradients[static_cast<size_t>(p.offset) + i]);
      if (table.sums_twice() && p.name == "embedding.token.weight")
        out[i] += static_cast<double>(gradients[static_cast<size_t>(table.trained_count()) + i]);
    }
    return out;
  }
};

}  // namespace trireme
