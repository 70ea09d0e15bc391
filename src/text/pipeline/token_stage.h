#pragma once
// Parts of decoders: stages that receive tokens, complete or in parts, and pass them on.

#include <functional>
#include <string>
#include <utility>

#include "text/pipeline/decoder.h"

namespace trireme {

void replace_all(std::string& text, std::string_view from, std::string_view to);

/// Passes everything on unchanged.
class TokenStage : public TokenSink {
 public:
  explicit TokenStage(TokenSink& next) : next_(next) {}
  void part(std::string_view text) override { next_.part(text); }
  void end_token() override { next_.end_token(); }
  void end() override { next_.end(); }

 protected:
  TokenSink& next() { return next_; }
  void hand_on(std::string_view token) {
    next_.part(token);
    next_.end_token();
  }

 private:
  TokenSink& next_;
};

/// Receives each complete token.
class WholeTokenStage : public TokenStage {
 public:
  using TokenStage::TokenStage;
  void part(std::string_view text) final { text_ += text; }
  void end_token() final {
    token(text_, index_++);
    text_.clear();
  }

 protected:
  /// May change the text before hand_on().
  virtual void token(std::string& text, size_t index) = 0;

 private:
  std::string text_;
  size_t index_ = 0;
};

/// Rewrites each token separately: rewrite(text, index).
class RewriteStage final : public WholeTokenStage {
 public:
  using Rewrite = std::function<void(std::string&, size_t)>;
  RewriteStage(TokenSink& next, Rewrite rewrite) : WholeTokenStage(next), rewrite_(std::move(rewrite)) {}

 protected:
  void token(std::string& text, size_t index) override {
    rewrite_(text, index);
    hand_on(text);
  }

 private:
  Rewrite rewrite_;
};

/// Replaces a literal in each token, with a different replacement for the first token. Only delays text that may be the
/// beginning of the literal.
class LiteralStage final : public TokenStage {
 public:
  /// `from` is not empty. Borrows `given`.
  LiteralStage(TokenSink& next, std::string from, std::string to_in_first, std::string to, const GivenBytes& given);
  void part(std::string_view text) override;
  void end_token() override;

 private:
  std::string from_, to_in_first_, to_;
  const GivenBytes& given_;
  std::string waiting_;
  size_t made_ = 0;  // bytes of the current token
  bool first_ = true;
};

/// Strips up to `start` and `stop` copies of a text from the ends of each token.
class StripStage final : public TokenStage {
 public:
  StripStage(TokenSink& next, std::string content, uint64_t start, uint64_t stop);
  void part(std::string_view text) override;
  void end_token() override;

 private:
  void strip_start();

  std::string content_;
  uint64_t start_, stop_;
  size_t held_;  // bytes at the end that may still be stripped
  uint64_t stripped_ = 0;
  bool at_start_ = true;
  std::string waiting_;
};

}  // namespace trireme
