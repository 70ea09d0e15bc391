#pragma once
// Unigram: the cut into tokens with the highest sum of log probabilities, by Viterbi's algorithm.
// Source: Kudo 2018, section 3.1; ties and unknown characters as in Hugging Face's Unigram.

#include <array>

#include "text/models/token_model.h"

namespace trireme {

struct UnigramOptions {
  std::optional<TokenId> unknown;
  bool byte_fallback = false;  ///< unknown characters become their bytes, tokens <0x00> ... <0xFF>
};

class UnigramModel final : public TokenModel {
 public:
  /// scores[id] belongs to the token of that id.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, UnigramOptions options);

  std::unique_ptr<ModelScratch> make_scratch() const override;
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }

 private:
  struct Scratch;
  struct Node {  // of a trie over the tokens' bytes: children are a sorted range of edges_
    uint32_t first = 0, count = 0;
    TokenId token = kNone;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  static constexpr TokenId kNone = UINT32_MAX;

  void build_trie();
  const Node* child(const Node& node, uint8_t byte) const;
  void find_best_cut(std::string_view piece, Scratch& scratch) const;
  void append_ids(std::string_view piece, Scratch& scratch) const;
  void append_unknown(std::string_view text, std::vector<TokenId>& ids) const;

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  UnigramOptions options_;
  double unknown_score_ = 0;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<TokenId, 256> fallback_ids_;
};

}  // namespace trireme
