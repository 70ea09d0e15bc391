#pragma once
// Text files to token files: train.bin, val.bin, a sidecar for each, and tokenizer.json.
//
// One .txt file is one text: its first 90 % of characters are train.bin, the rest val.bin, without separator ids;
// SplitRule does not apply. Otherwise each .txt file and each line of a .jsonl file is a document, encoded as plain
// text (special tokens written in it are text) and followed by one end-of-text id; documents are split by SplitRule.
// Memory: fixed buffers, 32 bytes per document, the longest document (which has a limit). The same call resumes a
// killed run. Input that can be read twice at little cost (see expected_documents()) is counted first, and the ids are
// written directly to their files. Other input that is split or reordered, or has malformed lines, is encoded into
// OUTPUT/.prepare and copied from there, which needs disk space for the ids twice.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/document_chunks.h"
#include "data/prepare/input_files.h"
#include "text/tokenizer.h"

namespace trireme {

// Chooses the documents of val.bin and the order of documents in both files.

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

struct PrepareOptions {
  std::vector<std::string> inputs;      ///< see list_inputs()
  std::string tokenizer;                ///< path, or "char": a vocabulary of the characters in the input
  TokenizerLoadOptions load;            ///< of that path
  std::string output;                   ///< folder
  std::optional<InputKind> input_kind;  ///< kind of every file; empty: by its name
  InputEncoding encoding = {};
  std::string json_key = "text";
  std::string end_of_text;  ///< token between documents; empty: the tokenizer's
  SplitRule split;
  double train_fraction = 0.9;               ///< of the characters of a single text; 1: no val.bin
  uint64_t most_documents = 0;               ///< > 0: only the first ones
  uint64_t most_bytes = kMostDocumentBytes;  ///< limit of a document that must be in memory completely
  bool strict = false;                       ///< the first malformed line stops
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  ///< set by the caller to stop
};

struct PrepareReport {
  uint64_t documents = 0, train_documents = 0, val_documents = 0;
  uint64_t train_tokens = 0, val_tokens = 0;
  uint64_t input_bytes = 0;  ///< text, decompressed and unpacked
  uint64_t skipped_lines = 0, empty_files = 0;
  double load_seconds = 0, seconds = 0;  ///< tokenizer load; everything else
};

/// Throws Error::usage, Error::io, Error::data, Error::locked, Error::stopped; the folder then has no results, and
/// OUTPUT/.prepare remains only if a later run can resume from it.
PrepareReport prepare(const PrepareOptions& options);

}  // namespace trireme
