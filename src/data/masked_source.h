#pragma once
// Samples of a masked language model, made from other samples: text between the tokenizer's opening and closing token,
// with some tokens hidden as targets. Source: Devlin et al. 2019, section 3.1.

#include <memory>

#include "data/sample_source.h"
#include "text/tokenizer.h"

namespace trireme {

/// Rules for hiding tokens, and the tables of the vocabulary that they need.
struct Masking {
  double rate = 0.15;  ///< share of a sample's tokens, without special ones
  int32_t opening = 0, closing = 0, mask = 0;
  std::vector<char> special;      ///< by id: neither hidden nor used as a replacement
  std::vector<char> continues;    ///< by id: continues the previous word; empty: each token is hidden individually
  std::vector<int32_t> ordinary;  ///< ids that are not special
};

/// [CLS], [SEP] and [MASK], or <s>, </s> and <mask>. Whole words are those of WordPiece ("##ing" continues a word).
/// Throws Error::config naming what the tokenizer lacks.
Masking masking_of(const Tokenizer& tokenizer, double rate, bool whole_words);

/// Tokens that a masked sample adds to its text.
constexpr int64_t kMaskedEnds = 2;

/// Chooses the share `rate` of a sample's tokens (rounded, at least one), or words up to this number: 8 of 10 become
/// the mask, 1 of 10 a random ordinary token, 1 stays. The choice depends only on (seed, stream, index). Targets of all
/// other tokens are -1.
class MaskedSource final : public FileSource {
 public:
  MaskedSource(std::unique_ptr<FileSource> text, Masking masking, uint64_t seed);

  /// tokens: at least 3.
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  bool counts_all() const override { return false; }
  uint64_t tokens() const override { return text_->tokens(); }
  std::string name() const override { return text_->name(); }
  std::vector<SourceFile> files(const BeforeBlock& before) const override { return text_->files(before); }
  std::vector<std::string> index_files() const override { return text_->index_files(); }

 private:
  std::unique_ptr<FileSource> text_;
  Masking masking_;
  uint64_t seed_;
};

}  // namespace trireme
