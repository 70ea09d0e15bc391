#pragma once
// Counts the pieces of input files, in parallel: what tokenizer training starts from.

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "data/prepare/document_chunks.h"
#include "data/prepare/input_files.h"
#include "text/piece_counter.h"

namespace trireme {

struct TrainingTextOptions {
  std::vector<std::string> inputs;      ///< see list_inputs()
  std::optional<InputKind> input_kind;  ///< what every file holds; empty: as its name says
  InputEncoding encoding = {};
  std::string json_key = "text";
  uint64_t most_bytes = kMostDocumentBytes;  ///< of a document that must be held whole
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
};

/// Malformed jsonl lines are skipped and counted in a warning. Throws Error::io, Error::usage, Error::data (nothing but
/// malformed lines or empty files), Error::stopped. The result does not depend on the number of threads.
PieceCounter count_pieces(const TrainingTextOptions& options);

}  // namespace trireme
