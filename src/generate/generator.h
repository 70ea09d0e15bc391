#pragma once
// Continues token sequences with a model: prefill of the prompt, then one row per token against a key-value cache.

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "generate/sampling.h"
#include "model/mesh_stage.h"

namespace trireme {

/// Tokens that end a text: one, some or none.
class StopTokens {
 public:
  StopTokens() = default;
  StopTokens(TokenId id) : ids_{id} {}
  StopTokens(std::vector<TokenId> ids) : ids_(std::move(ids)) {}
  bool contains(TokenId id) const { return std::ranges::find(ids_, id) != ids_.end(); }
  const std::vector<TokenId>& ids() const { return ids_; }

 private:
  std::vector<TokenId> ids_;
};

struct GenerateOptions {
  SamplingOptions sampling;
  int64_t max_new_tokens = 100;
  uint64_t seed = 1337;
  StopTokens stop_at;               ///< end here; the token itself is not reported
  std::vector<TokenId> never = {};  ///< ids that are never drawn: no token has them
  /// Above 0: positive logits of tokens that the text has are divided by it, negative ones multiplied (CTRL, Keskar et
  /// al. 2019).
  double repetition_penalty = 1.0;
};

class Generator {
 public:
  /// Borrows ops, the weights behind views and the mesh. dtype: of the weights. mesh: whose tensor and pipeline ranks
  /// hold the model between them; then every call is collective, and all get the same tokens. nullptr: this rank has
  /// all of it. weights: where data ranks share what they hold of it, too; nullptr: they do not.
  Generator(const Spec& spec, const ParameterViews& views, DType dtype, Ops& ops, int threads, Mesh* mesh = nullptr,
            WeightSource* weights = nullptr);

  /// Continues `prompt` (at least one id, all below the vocabulary; only its last `context` ids are seen). `sample`
  /// tells draws of the same seed apart: token i of a sample is a pure function of (weights, prompt, seed, sample).
  /// on_token returning false ends early. Past the model's context the window slides by one per token, which has no
  /// cache and costs a whole window each.
  void run(std::span<const TokenId> prompt, const GenerateOptions& options, uint64_t sample,
           const std::function<bool(TokenId)>& on_token);

 private:
  std::span<float> next_logits(std::span<const TokenId> tokens, int64_t past);

  Spec spec_;
  MeshStage stage_;
  Arena memory_;
  KeyValueCache cache_;
  View logits_;
  int32_t past_ = 0;
  std::vector<int32_t> tokens_, positions_, offsets_;  // on the host
  std::vector<float> read_logits_;
  std::vector<uint8_t> in_text_;  // by id, where repetition has a penalty
  std::vector<uint32_t> order_;
};

}  // namespace trireme
