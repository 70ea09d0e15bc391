#pragma once
// Converts text files to indexed datasets, like Megatron's and NeoX's preprocess_data.py.

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/document_chunks.h"
#include "data/prepare/input_files.h"
#include "text/tokenizer.h"

namespace trireme {

struct MegatronOptions {
  std::vector<std::string> inputs;  ///< see list_inputs()
  std::string tokenizer;
  TokenizerLoadOptions load;
  std::optional<InputKind> input_kind;  ///< kind of every file; empty: by its name
  InputEncoding encoding = {};
  std::string prefix;                          ///< PREFIX_KEY_document.bin, .idx and .bin.json (the sidecar)
  std::vector<std::string> json_keys{"text"};  ///< one dataset per key
  bool append_eod = false;
  std::string end_of_text;                   ///< its token; empty: the tokenizer's
  uint64_t most_documents = 0;               ///< > 0: only the first ones
  uint64_t most_bytes = kMostDocumentBytes;  ///< limit of a document that must be in memory completely
  bool strict = false;
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
};

struct MegatronReport {
  uint64_t documents = 0;  ///< of each dataset
  uint64_t tokens = 0;     ///< of all datasets
  uint64_t input_bytes = 0;
  double load_seconds = 0, seconds = 0;
};

/// Each document is one sequence, in input order; one without ids has no sequence. Unfinished work is in a folder
/// .NAME.prepare beside the results. Throws as prepare().
MegatronReport prepare_megatron(const MegatronOptions& options);

struct MergeReport {
  uint64_t documents = 0, tokens = 0;
};

/// Concatenates indexed datasets: PREFIX.bin, .idx and .bin.json are the same as for preparing the joined input. Throws
/// Error::data if their ids have different types or come from different tokenizers, Error::io, Error::usage for an
/// output that is one of the inputs.
MergeReport merge_indexed(const std::vector<std::string>& inputs, const std::string& prefix);

}  // namespace trireme
