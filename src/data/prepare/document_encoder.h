#pragma once
// Reads the input files, encodes their documents on all threads and gives the ids on in the order of the input.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/document_chunks.h"
#include "data/prepare/input_files.h"
#include "data/prepare/input_parts.h"
#include "text/tokenizer.h"

namespace trireme {

/// Takes documents in order; a long one comes in parts. Called by one thread at a time.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  /// `ids` in the encoding's width, which they fit; documents end before the ids of the numbers in `ends`.
  virtual void append(std::span<const std::byte> ids, std::span<const size_t> ends) = 0;
};

struct DocumentCounts {
  uint64_t documents = 0;   ///< for each key
  uint64_t text_bytes = 0;  ///< decompressed and unpacked, of all keys
  uint64_t skipped_lines = 0, empty_files = 0;
};

/// How far an encoding is: what a later run needs to go on.
struct EncodingState {
  InputPlace place;
  DocumentCounts counts;
};

struct DocumentEncoding {
  std::string task = "prepare";                ///< word before the progress
  std::vector<std::string> json_keys{"text"};  ///< each gives the documents of one sink
  std::optional<TokenId> end_of_text;          ///< written after each document
  uint64_t width = sizeof(uint16_t);           ///< bytes of an id for the sinks, 2 or 4
  uint64_t border = 0;                         ///< > 0: a text file is two documents, cut after so many characters
  uint64_t most_documents = 0;                 ///< > 0: the rest of the input is left out
  uint64_t most_bytes = kMostDocumentBytes;    ///< of a document that must be held whole
  bool strict = false;                         ///< the first malformed line throws Error::data
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
  EncodingState from;  ///< go on there; the sinks hold what was before
  /// Called now and then, when all that lies before a place is in the sinks. Empty: never.
  std::function<void(const EncodingState&)> save;
};

/// Throws Error::stopped when the flag is set.
void check_stop(const std::atomic<bool>* stop);

/// One sink for each key. A line that lacks a key, or is malformed, gives no document to any of them; such lines and
/// empty files are skipped: the first ten lines are named in warnings, all are counted. Text files are documents of the
/// only key. Throws Error::io, Error::data, Error::usage (text files with several keys), Error::stopped.
EncodingState encode_documents(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                               const DocumentEncoding& options, std::span<DocumentSink* const> sinks);

}  // namespace trireme
