#pragma once
// The tokenizer that tokenizer.json describes: added tokens, normalizer, pre-tokenizer, model, post-processor, decoder.

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "text/models/token_model.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/decoder.h"
#include "text/pipeline/normalizer.h"
#include "text/pipeline/post_processor.h"
#include "text/pipeline/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace trireme {

class BpeModel;

struct PipelineParts {
  std::vector<AddedToken> added;
  std::unique_ptr<Normalizer> normalizer;       ///< none: text is unchanged
  std::unique_ptr<PreTokenizer> pre_tokenizer;  ///< none: the text is one piece
  std::optional<CutPlan> plan;                  ///< the pre-tokenizer as a plan, for a model that supports plans
  std::unique_ptr<TokenModel> model;
  std::unique_ptr<Decoder> decoder;
  PostProcessor post_processor;
  std::optional<Truncation> truncation;
  std::optional<Padding> padding;
  std::string json;
  std::function<std::string(const TokenModel&)> write_json;  ///< set: creates `json` on demand
};

/// The tokens of a model and the added tokens.
class TokenNames {
 public:
  TokenNames() = default;
  explicit TokenNames(const Vocabulary& model) : model_(&model) {}
  /// Throws Error::data for a token or an id that contradicts either.
  void add(std::string_view token, TokenId id, std::string_view where);
  std::optional<TokenId> find(std::string_view token) const;
  std::optional<std::string_view> token(TokenId id) const;
  size_t id_limit() const { return std::max(model_->id_limit(), added_.id_limit()); }

 private:
  const Vocabulary* model_ = nullptr;
  Vocabulary added_;  // tokens that are not the model's
};

class PipelineTokenizer final : public Tokenizer {
 public:
  /// Throws Error::data if an added token contradicts the vocabulary. `where` names the file.
  PipelineTokenizer(PipelineParts parts, std::string_view where);
  ~PipelineTokenizer() override;

  Encoding encode(std::string_view text, const EncodeOptions& options) const override;
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options) const override;
  void encode_plain(std::string_view text, std::vector<TokenId>& out) const override;
  void encode_chat(std::string_view text, std::vector<TokenId>& out) const override { encode_ids(text, true, out); }
  void encode_chat(std::string_view text, std::vector<TokenId>& out, std::vector<TextSpan>& places) const override {
    encode_ids(text, true, out, &places);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special_tokens) const override;
  std::unique_ptr<TextStream> stream(bool skip_special_tokens) const override;
  size_t vocabulary_size() const override { return tokens_.id_limit(); }
  std::optional<TokenId> token_to_id(std::string_view token) const override { return tokens_.find(token); }
  std::string id_to_token(TokenId id) const override;
  bool has_token(TokenId id) const override { return tokens_.token(id).has_value(); }
  std::optional<TokenId> end_of_text() const override { return end_of_text_; }
  const std::string& json() const override;
  size_t cut(std::string_view text, size_t near) const override;
  std::vector<std::string> cutting() const override;

 private:
  struct Scratch;
  class Lease;
  class ModelSink;
  class PlacingSink;

  // Each appends ids to `out` and, if `places` is not null, their places in the `text` that it was given.
  using Places = std::vector<TextSpan>;
  void encode_ids(std::string_view text, bool specials, std::vector<TokenId>& out, Places* places = nullptr) const;
  void encode_raw(std::string_view text, bool specials, Scratch& scratch, std::vector<TokenId>& out,
                  Places* places) const;
  void encode_normalized(std::string_view text, bool at_start, bool specials, Scratch& scratch,
                         std::vector<TokenId>& out, Places* places) const;
  void encode_pieces(std::string_view text, bool at_start, Scratch& scratch, std::vector<TokenId>& out) const;
  void encode_placed_pieces(std::string_view text, bool at_start, Scratch& scratch, std::vector<TokenId>& out,
                            Places& places) const;
  Encoding finish(std::vector<TokenId>& first, std::vector<TokenId>* second, const EncodeOptions& options) const;
  void add_tokens(std::string_view where);
  void check_fixed_ids(std::string_view where) const;
  struct DecodedTokens;
  const DecodedTokens& decoded_tokens() const;
  class Stream;
  bool is_special(TokenId id) const { return id < special_.size() && special_[id]; }
  template <class IsLeftOut>
  std::string decode_per_token(std::span<const TokenId> ids, IsLeftOut is_left_out) const;
  std::string_view token_or_fail(TokenId id) const;

  PipelineParts parts_;
  std::string where_;
  const BpeModel* planned_ = nullptr;  // the model, if it cuts text by the plan
  AddedTokenMatcher raw_, normalized_;
  TokenNames tokens_;
  std::vector<bool> special_;
  std::optional<TokenId> end_of_text_;
  bool cuts_before_space_ = false, cuts_anywhere_ = false;

  mutable std::once_flag json_once_, decoded_once_;
  mutable std::string json_;                        // if created later
  mutable std::unique_ptr<DecodedTokens> decoded_;  // likewise: encoding does not need it
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;  // one per thread that has encoded concurrently
};

}  // namespace trireme
