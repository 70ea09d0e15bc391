#pragma once
// Text files to indexed datasets, as Megatron's and NeoX's preprocess_data.py writes them.

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
  std::optional<InputKind> input_kind;  ///< what every file holds; empty: as its name says
  InputEncoding encoding = {};
  std::string prefix;                          ///< PREFIX_KEY_document.bin, .idx and .bin.json (the sidecar)
  std::vector<std::string> json_keys{"text"};  ///< one dataset for each
  bool append_eod = false;
  std::string end_of_text;                   ///< token for it; empty: the one that the tokenizer names
  uint64_t most_documents = 0;               ///< > 0: the first ones only
  uint64_t most_bytes = kMostDocumentBytes;  ///< of a document that must be held whole
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

/// Each document is one sequence, in input order; one without an id has no sequence. What is half done lies in a folder
/// .NAME.prepare beside the results. Throws as prepare().
MegatronReport prepare_megatron(const MegatronOptions& options);

}  // namespace trireme
