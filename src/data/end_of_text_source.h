#pragma once
// Samples of another source without a target for the token that ends a document, because the next token begins an
// unrelated document: GPT-NeoX's and Megatron's eod_mask_loss.

#include <memory>

#include "data/sample_source.h"

namespace trireme {

class EndOfTextSource final : public FileSource {
 public:
  EndOfTextSource(std::unique_ptr<FileSource> text, int32_t end) : text_(std::move(text)), end_(end) {}

  /// The other source's sample; the target of each end token is -1.
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  bool counts_all() const override { return false; }
  uint64_t tokens() const override { return text_->tokens(); }
  std::string name() const override { return text_->name(); }
  std::vector<SourceFile> files(const BeforeBlock& before) const override { return text_->files(before); }
  std::vector<std::string> index_files() const override { return text_->index_files(); }

 private:
  std::unique_ptr<FileSource> text_;
  int32_t end_;
};

}  // namespace trireme
