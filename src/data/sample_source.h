#pragma once
// Samples of a data set by their number: a sample is `sequence` tokens and, for each, the token to predict. The text of
// sample n depends only on the data, the seed and n, so any number of ranks can resume.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/sampler.h"
#include "data/token_dataset.h"

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

}  // namespace trireme
