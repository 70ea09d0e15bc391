#pragma once
// Selects the needed files of a repository by name, and checks whether the existing ones suffice.

#include <span>
#include <string>
#include <vector>

namespace trireme::hub {

using Files = std::vector<std::string>;  ///< relative paths, sorted

/// Files to look for in a repository.
class Selection {
 public:
  virtual ~Selection() = default;
  /// Selects from all files; the error for an empty selection contains what().
  virtual Files first(const Files& all) const = 0;
  virtual std::string what() const = 0;
  /// Further files needed according to the files in `folder`, which has first().
  virtual Files then(const Files& all, const std::string& folder) const;
  /// Whether a snapshot with these files is sufficient.
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

/// Files that match one of the patterns; '*' also matches '/'.
class GlobSelection final : public Selection {
 public:
  explicit GlobSelection(Files patterns) : patterns_(std::move(patterns)) {}
  Files first(const Files& all) const override;
  std::string what() const override;
  bool whole(const Files& here, const std::string& folder) const override;

 private:
  Files patterns_;
};

/// Texts of a data set: the Parquet files, else the jsonl files, else the text files (also compressed).
class DataSelection final : public Selection {
 public:
  Files first(const Files& all) const override;
  std::string what() const override { return "files of text (.parquet, .jsonl, .txt)"; }
  bool whole(const Files& here, const std::string& folder) const override;
};

/// Whether every set of numbered parts (NAME-00000-of-00007.END) is complete.
bool has_all_parts(const Files& files);

}  // namespace trireme::hub
