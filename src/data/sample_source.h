#pragma once
// Samples of a data set by their number: a sample is `sequence` tokens and, for each, the token to predict. The text of
// sample n depends only on the data, the seed and n, so any number of ranks can resume.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "data/token_dataset.h"
#include "text/tokenizer.h"

namespace trireme {

/// A file of ids, and the hash that reveals a change.
struct SourceFile {
  std::string path;
  uint64_t bytes = 0, hash = 0;
};

class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// Sample `index` of a stream. tokens, targets: [sequence].
  virtual void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens,
                    std::span<int32_t> targets) const = 0;
  /// Whether every token has a target; otherwise tokens without one have -1.
  virtual bool counts_all() const { return true; }
};

/// nanoGPT's: each sample begins at a random token; see window_start().
class WindowSource final : public SampleSource {
 public:
  /// `ids` must outlive the source.
  WindowSource(TokenIds ids, uint64_t seed) : ids_(ids), seed_(seed) {}
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

 private:
  TokenIds ids_;
  uint64_t seed_;
};

/// Throws Error::data naming the first id outside the vocabulary (0: unknown, not checked). The ids begin at place
/// `first` of the file.
void require_ids(const std::string& path, uint64_t first, std::span<const int32_t> ids, uint64_t vocabulary);

/// The training data of a run: samples of files.
class FileSource : public SampleSource {
 public:
  virtual uint64_t tokens() const = 0;   ///< ids that samples are cut from
  virtual std::string name() const = 0;  ///< for messages
  /// Reads files whose hash is not in a sidecar.
  virtual std::vector<SourceFile> files(const BeforeBlock& before) const = 0;
  /// Further files that determine the samples.
  virtual std::vector<std::string> index_files() const { return {}; }
};

/// Windows of one token file.
class TokenFileSource final : public FileSource {
 public:
  TokenFileSource(TokenDataset dataset, uint64_t seed)
      : dataset_(std::move(dataset)), windows_(dataset_.tokens(), seed), seed_(seed) {}

  /// Throws Error::data naming an id outside the vocabulary that the blocks read at open did not contain.
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  uint64_t tokens() const override { return dataset_.size(); }
  std::string name() const override { return dataset_.path(); }
  std::vector<SourceFile> files(const BeforeBlock& before) const override;

 private:
  TokenDataset dataset_;
  WindowSource windows_;
  uint64_t seed_;
};

/// The files of another source, with targets for some of its tokens.
class TargetSource : public FileSource {
 public:
  bool counts_all() const override { return false; }
  uint64_t tokens() const override { return text_->tokens(); }
  std::string name() const override { return text_->name(); }
  std::vector<SourceFile> files(const BeforeBlock& before) const override { return text_->files(before); }
  std::vector<std::string> index_files() const override { return text_->index_files(); }

 protected:
  explicit TargetSource(std::unique_ptr<FileSource> text) : text_(std::move(text)) {}
  const FileSource& text() const { return *text_; }

 private:
  std::unique_ptr<FileSource> text_;
};

// Samples of another source without a target for the token that ends a document, because the next token begins an
// unrelated document: GPT-NeoX's and Megatron's eod_mask_loss.

class EndOfTextSource final : public TargetSource {
 public:
  EndOfTextSource(std::unique_ptr<FileSource> text, int32_t end) : TargetSource(std::move(text)), end_(end) {}

  /// The other source's sample; the target of each end token is -1.
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

 private:
  int32_t end_;
};

// Samples of a masked language model, made from other samples: text between the tokenizer's opening and closing token,
// with some tokens hidden as targets. Source: Devlin et al. 2019, section 3.1.

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
class MaskedSource final : public TargetSource {
 public:
  MaskedSource(std::unique_ptr<FileSource> text, Masking masking, uint64_t seed);

  /// tokens: at least 3.
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;

 private:
  Masking masking_;
  uint64_t seed_;
};

}  // namespace trireme
