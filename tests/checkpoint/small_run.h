#pragma once
// A small model and its state, filled with values that depend on a seed, for checkpoint tests.

#include <cstring>

#include "base/rng.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "tests/support/local_ranks.h"

namespace trireme {

inline Spec small_spec(int64_t vocabulary = 11) {
  Spec spec;
  spec.vocabulary = vocabulary;
  spec.vocabulary_rows = 16;
  spec.context = 6;
  spec.layers = 2;
  spec.heads = 2;
  spec.width = 8;
  spec.inner_width = 24;
  spec.norm_epsilon = 1e-5f;
  return spec;
}

/// Random weights and moments; padding rows stay zero.
inline void fill(TrainingState& state, const ParameterTable& table, uint64_t seed) {
  uint64_t key = mix_key(seed, 1);
  for (const Parameter& p : table.all()) {
    std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(normal_at(key, i));
    state.write_master(p, values);
    for (const std::string_view moment : {kAdamM, kAdamV}) {
      ++key;
      if (state.state(moment).empty() || !p.trained()) continue;
      for (size_t i = 0; i < values.size(); ++i) {
        const double drawn = normal_at(key, i);
        values[i] = static_cast<float>(moment == kAdamV ? drawn * drawn : drawn);
      }
      state.write_state(moment, p, 0, values);
    }
    ++key;
  }
}

inline bool same_bytes(ConstView a, ConstView b) {
  return a.bytes() == b.bytes() && (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

/// Weights, remainders and moments are equal bit for bit.
inline bool same_state(const TrainingState& a, const TrainingState& b) {
  return same_bytes(a.weights(), b.weights()) && same_bytes(a.remainder(), b.remainder()) &&
         same_bytes(a.state(kAdamM), b.state(kAdamM)) && same_bytes(a.state(kAdamV), b.state(kAdamV));
}

inline CheckpointFacts facts_of(const Spec& spec, int64_t step) {
  CheckpointFacts facts;
  facts.spec = spec;
  facts.progress.step = step;
  facts.progress.samples = static_cast<uint64_t>(step) * 32;
  facts.progress.updates = step;
  facts.config_json = R"({"run":{"steps":10},"batch":{"global":32}})";
  facts.tokenizer_json = R"({"model":{"type":"BPE"}})";
  facts.data_files = {{"train.bin", 123, "00000000000000ff"}};
  facts.parameter_hash = "00000000000000aa";
  return facts;
}

/// Saves and publishes a state on `ranks` threads.
inline void save(const std::string& run_dir, const ParameterTable& table, const TrainingState& state,
                 const CheckpointFacts& facts, int ranks = 1, int64_t keep = 0, bool is_best = false) {
  run_local(ranks, [&](RankContext& rank) {
    CheckpointWriter writer(run_dir, table, state, rank.world);
    writer.begin(facts, {}, is_best);
    writer.publish(keep);
  });
}

}  // namespace trireme
