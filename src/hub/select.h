#pragma once
// Which files of a repository are wanted, by their names, and whether those that are there are enough.

#include <span>
#include <string>
#include <vector>

namespace trireme::hub {

using Files = std::vector<std::string>;  ///< relative paths, sorted

/// What is looked for in a repository.
class Selection {
 public:
  virtual ~Selection() = default;
  /// Of all files; what() is what the error for none of them names.
  virtual Files first(const Files& all) const = 0;
  virtual std::string what() const = 0;
  /// What files in `folder`, which has first(), say that is needed besides.
  virtual Files then(const Files& all, const std::string& folder) const;
  /// Whether a snapshot with these files has what is needed.
  virtual bool whole(const Files& here, const std::string& folder) const = 0;
};

/// config.json, tokenizer and weights: the first of model.safetensors, model.safetensors.index.json with its files,
/// pytorch_model.bin, pytorch_model.bin.index.json with its files.
class ModelSelection final : public Selection {
 public:
  Files first(const Files& all) const override;
  Files then(const Files& all, const std::string& folder) const override;
  std::string what() const override { return "config.json and weights (model.safetensors or pytorch_model.bin)"; }
  bool whole(const Files& here, const std::string& folder) const override;
};

class TokenizerSelection final : public Selection {
 public:
  Files first(const Files& all) const override;
  std::string what() const override { return "tokenizer (tokenizer.json, vocab.json with merges.txt, vocab.txt)"; }
  bool whole(const Files& here, const std::string& folder) const override;
};

/// Files that one of the patterns matches; '*' also matches '/'.
class GlobSelection final : public Selection {
 public:
  explicit GlobSelection(Files patterns) : patterns_(std::move(patterns)) {}
  Files first(const Files& all) const override;
  std::string what() const override;
  bool whole(const Files& here, const std::string& folder) const override;

 private:
  Files patterns_;
};

/// Texts of a data set: the Parquet files; where there are none the jsonl files, else the texts (also compressed).
class DataSelection final : public Selection {
 public:
  Files first(const Files& all) const override;
  std::string what() const override { return "files of text (.parquet, .jsonl, .txt)"; }
  bool whole(const Files& here, const std::string& folder) const override;
};

/// Whether files that are numbered as parts of a whole (NAME-00000-of-00007.END) are there with all others of them.
bool has_all_parts(const Files& files);

}  // namespace trireme::hub
