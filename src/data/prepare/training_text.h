#pragma once
// Counts the pieces of input files in parallel, for training a tokenizer.

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/document_chunks.h"
#include "data/prepare/input_files.h"
#include "text/training/piece_counter.h"

namespace trireme {

struct TrainingTextOptions {
  std::vector<std::string> inputs;      ///< see list_inputs()
  std::optional<InputKind> input_kind;  ///< kind of every file; empty: by its name
  InputEncoding encoding = {};
  std::string json_key = "text";
  uint64_t most_bytes = kMostDocumentBytes;  ///< limit of a document that must be in memory completely
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
};

/// Malformed jsonl lines are skipped and counted in a warning. Throws Error::io, Error::usage, Error::data (only
/// malformed lines or empty files), Error::stopped. The result does not depend on the number of threads.
PieceCounter count_pieces(const TrainingTextOptions& options);

}  // namespace trireme
