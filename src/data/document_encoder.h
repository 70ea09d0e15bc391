#pragma once
// Reads the input files, encodes their documents on all threads and gives the ids on in the order of the input.

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/input_files.h"
#include "text/tokenizer.h"

namespace trireme {

/// Takes documents in order; a long one comes in parts. Called by one thread.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  virtual void append(std::span<const TokenId> ids) = 0;
  virtual void end_document() = 0;
};

struct DocumentEncoding {
  std::string task = "prepare";  ///< word before the progress
  std::string json_key = "text";
  std::optional<TokenId> end_of_text;  ///< written after each document
  uint64_t border = 0;                 ///< > 0: a text file is two documents, cut at this byte
  bool strict = false;                 ///< the first malformed line throws Error::data
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
};

struct EncodedDocuments {
  uint64_t documents = 0;
  uint64_t text_bytes = 0;  ///< decompressed and unpacked
  uint64_t skipped_lines = 0, empty_files = 0;
};

/// Throws Error::stopped when the flag is set.
void check_stop(const std::atomic<bool>* stop);

/// Malformed lines and empty files are skipped: the first ten lines are named in warnings, all are counted. Throws
/// Error::io, Error::data, Error::stopped.
EncodedDocuments encode_documents(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                                  const DocumentEncoding& options, DocumentSink& sink);

}  // namespace trireme
