#pragma once
// Byte-pair encoding over characters, or over raw bytes when the pre-tokenizer is byte-level.
// Source: Sennrich et al. 2016, section 3.2; the options are those of Hugging Face's tokenizer.json.

#include <array>
#include <mutex>
#include <optional>
#include <string>

#include "text/models/bpe_merges.h"
#include "text/models/piece_cache.h"
#include "text/models/token_model.h"
#include "text/models/token_paths.h"
#include "text/regex/cut_plan.h"

namespace trireme {

struct BpeOptions {
  bool bytes = false;          ///< pieces are raw bytes; the vocabulary spells them in GPT-2's byte alphabet
  bool byte_fallback = false;  ///< an unknown character becomes its bytes, tokens <0x00> ... <0xFF>
  bool fuse_unknown = false;   ///< adjacent unknown characters become one unknown token
  bool ignore_merges = false;  ///< a piece that is a token becomes that token, regardless of merges
  std::optional<TokenId> unknown;
  std::string continuing_prefix, word_suffix;  ///< for characters that do not begin a piece; for those that end one
};

class BpeModel final : public TokenModel {
 public:
  BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options);

  std::unique_ptr<ModelScratch> make_scratch() const override;
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  const MergeTable& merges() const { return merges_; }
  bool is_per_character() const override;

  /// Ids of text cut by a plan: the same as encode() on each piece, without a call per piece.
  void encode_cut(std::string_view text, const CutPlan& plan, ModelScratch& scratch, std::vector<TokenId>& out) const;

 protected:
  std::string spelled(bool first, bool last, std::string_view token) const override;

 private:
  struct Scratch;
  static constexpr TokenId kMissing = UINT32_MAX;

  /// Finds the ids of a piece and caches them.
  void append_uncached(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_long(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  /// The same result as merging. False, without a result: only merging can do it.
  bool append_by_paths(std::string_view piece, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_pending(size_t pieces, Scratch& scratch, std::vector<TokenId>& out) const;
  void append_other(std::string_view piece, const PieceCache::Place& place, Scratch& scratch,
                    std::vector<TokenId>& out) const;
  void first_symbols(std::string_view piece, std::vector<TokenId>& symbols) const;
  void add_unknown(std::string_view unit, std::vector<TokenId>& symbols, bool& pending) const;
  /// The token equal to a piece, for a model that ignores merges then. `spelling` is working memory.
  std::optional<TokenId> whole_piece(std::string_view piece, std::string& spelling) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  std::array<TokenId, 256> byte_ids_;      // byte mode: id of each byte
  std::array<TokenId, 256> fallback_ids_;  // ids of <0x00> ... <0xFF>
  bool all_bytes_ = true;                  // byte mode: every byte has a token
  mutable std::once_flag paths_once_;
  mutable std::optional<TokenPaths> paths_;  // built after some bytes were merged; none: too many tokens
};

}  // namespace trireme
