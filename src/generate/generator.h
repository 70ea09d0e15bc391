#pragma once
// Continues token sequences with a model: prefill of the prompt, then one row per token against a key-value cache.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "model/mesh_stage.h"
#include "text/tokenizer.h"

namespace trireme {

// Chooses the next token: a pure function of logits, options and one random number.

struct SamplingOptions {
  bool greedy = false;       ///< the largest logit; among equals the lowest id
  double temperature = 1.0;  ///< logits are divided by it; 0: greedy
  int64_t top_k = 0;         ///< keep the k largest, ties with the k-th kept; 0: all
  double top_p = 1.0;  ///< then keep the most probable ones up to this total, including the one that reaches it; 1: all
  double min_p = 0;    ///< then drop those below this share of the largest probability; 0: none
  /// Throws Error::usage naming the option and its range.
  void validate() const;
};

/// Chooses among logits [vocabulary] with `uniform` in [0, 1). Never chooses minus infinity; at least one logit must be
/// larger. `order` is the caller's working memory.
TokenId choose_token(std::span<const float> logits, const SamplingOptions& options, double uniform,
                     std::vector<uint32_t>& order);

/// Tokens that end a text: none, one or several.
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
  StopTokens stop_at;               ///< end a text; the token itself is not reported
  std::vector<TokenId> never = {};  ///< ids that are never drawn: they have no token
  /// Above 0: divides positive logits of tokens in the text by it and multiplies negative ones (CTRL, Keskar et al.
  /// 2019).
  double repetition_penalty = 1.0;
};

class Generator {
 public:
  /// Borrows ops, the weights behind views and the mesh. dtype: of the weights. mesh: its tensor and pipeline ranks
  /// hold the model together; every call is then collective, and all get the same tokens; nullptr: this rank holds the
  /// complete model. weights: for weights sharded over data ranks, else nullptr.
  Generator(const Spec& spec, const ParameterViews& views, DType dtype, Ops& ops, int threads, Mesh* mesh = nullptr,
            WeightSource* weights = nullptr);

  /// Continues `prompt` (at least one id, all in the vocabulary; only its last `context` ids are used). `sample`
  /// separates draws of the same seed: token i of a sample is a pure function of (weights, prompt, seed, sample).
  /// on_token returning false ends early. Past the model's context the window slides by one per token, without a cache,
  /// which costs a complete window each.
  void run(std::span<const TokenId> prompt, const GenerateOptions& options, uint64_t sample,
           const std::function<bool(TokenId)>& on_token);

 private:
  std::span<float> next_logits(std::span<const TokenId> tokens, int64_t past);

  Spec spec_;
  MeshStage stage_;
  Arena memory_;
  std::vector<LayerCache> layers_;  // of the cache
  KeyValueCache cache_;
  View logits_;
  int32_t past_ = 0;
  std::vector<int32_t> tokens_, positions_, offsets_;  // on the host
  std::vector<float> read_logits_;
  std::vector<uint8_t> in_text_;  // by id, if repetition has a penalty
  std::vector<uint32_t> order_;
};

}  // namespace trireme
