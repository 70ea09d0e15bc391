#pragma once
// Chooses the documents of val.bin and the order of documents in both files.

#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

enum class DocumentOrder {
  input,        ///< in the order of reading
  openwebtext,  ///< in the order of the permutation, like the published OpenWebText files
};

struct SplitRule {
  double val_fraction = 0.0005;
  uint64_t seed = 2357;
  DocumentOrder order = DocumentOrder::input;
};

struct DocumentSplit {
  std::vector<uint64_t> train, val;  ///< document numbers in the order of the files
};

/// The first ceil(val_fraction * documents) of numpy's default_rng(seed).permutation(documents) are validation, the
/// rest is training, like train_test_split of Hugging Face datasets. Throws Error::data if one side would be empty
/// (val_fraction 0: all training).
DocumentSplit split_documents(uint64_t documents, const SplitRule& rule);

/// The rule in words, for the sidecar.
std::string describe(const SplitRule& rule);

}  // namespace trireme
