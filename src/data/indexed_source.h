#pragma once
// Samples of indexed datasets in NeoX's order, blended by weight.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/neox_index.h"
#include "data/sample_source.h"

namespace trireme {

// Chooses the data set of each sample so that their shares follow the weights: sample i is from the set with the
// largest weight * max(i, 1) - (samples taken from it so far), the first of equals; the rule of Megatron and NeoX.

class Blend {
 public:
  /// Weights, at least one above 0; they are normalised. `samples`: the range of at(). Throws Error::usage.
  Blend(std::vector<double> weights, uint64_t samples);

  struct Choice {
    size_t set;
    uint64_t sample;  ///< number among the samples of that set
  };
  /// index < samples. Walks from the nearest state kept, at most 1024 samples back.
  Choice at(uint64_t index) const;

  /// Samples that a set must have so that `samples` can be drawn: ceil(samples * weight * 1.005), as NeoX builds it.
  uint64_t needed(size_t set) const;

 private:
  size_t choose(uint64_t index, const uint64_t* taken) const;

  std::vector<double> weights_;
  uint64_t samples_;
  std::vector<uint64_t> kept_;  // taken samples of each set before sample k * 1024
};

struct WeightedPrefix {
  double weight = 1;
  std::string prefix;
  bool weighted = false;  ///< a weight was given: even a single set is then a blend, for which NeoX draws 0.5 % more
};

/// "PREFIX", or alternating weights and prefixes: "0.7 a_text_document 0.3 b_text_document", separated by blanks or
/// commas. Throws Error::usage.
std::vector<WeightedPrefix> parse_blend(const std::string& text);

struct IndexedSourceOptions {
  std::vector<WeightedPrefix> sets;
  std::string part =
      "train";           ///< train, valid or test: names the order's files; with `split`, which documents are read
  std::string split;     ///< "969, 30, 1"; empty: all documents
  uint64_t samples = 0;  ///< samples that the run draws: the order depends on it, as in NeoX
  uint64_t sequence = 0, seed = 0;
  std::string index_folder;  ///< for the order's files; empty: beside the datasets
  uint64_t vocabulary = 0;   ///< ids of the model
  bool verify = false;       ///< check every block and id, otherwise a sample of them
  BeforeBlock before = {};   ///< also called before each file of the order is made
};

class IndexedSource final : public FileSource {
 public:
  /// Makes the order's files if they are missing, damaged or those of other documents; files of NeoX are used. Of
  /// several processes that share the folder one makes them and the others wait, so every host may have its own folder.
  /// Throws Error::io, Error::data, Error::usage.
  explicit IndexedSource(IndexedSourceOptions options);

  /// Both streams use the one order from its beginning. Samples beyond its end start again from the beginning.
  void fill(SampleStream stream, uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) const override;
  uint64_t tokens() const override;
  std::string name() const override;
  std::vector<SourceFile> files(const BeforeBlock& before) const override;
  std::vector<std::string> index_files() const override;
  /// Documents of a part of the split (0 to 2: train, valid, test) over all datasets; 0 if one of them has none, so
  /// that this part is not read.
  uint64_t documents(size_t part) const;
  /// Parts without documents in some dataset: not read.
  uint64_t unused_documents(size_t part) const;

 private:
  struct Set {
    std::string stem;  ///< of the order's files
    std::unique_ptr<IndexedDataset> data;
    std::unique_ptr<NeoxIndex> order;
    std::array<uint64_t, 3> documents{};  ///< of the parts of the split
    uint64_t tokens = 0;                  ///< ids of the part's documents
  };
  Set open(size_t number) const;
  void make_order(const std::string& stem, std::span<const int32_t> lengths, uint64_t first, uint64_t last,
                  const NeoxOrder& order) const;
  bool blended() const;

  IndexedSourceOptions options_;
  Blend blend_;
  std::vector<Set> sets_;
};

}  // namespace trireme
