#pragma once
// Reads the input files, encodes their documents on all threads and passes on the ids in input order.

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

/// Receives documents in order; a long one arrives in parts. Called by one thread at a time.
class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  /// `ids` have the encoding's width; documents end before the positions in `ends`.
  virtual void append(std::span<const std::byte> ids, std::span<const size_t> ends) = 0;
};

struct DocumentCounts {
  uint64_t documents = 0;   ///< for each key
  uint64_t text_bytes = 0;  ///< decompressed and unpacked, of all keys
  uint64_t skipped_lines = 0, empty_files = 0;
};

/// Progress of an encoding, from which a later run can resume.
struct EncodingState {
  InputPlace place;
  DocumentCounts counts;
};

struct DocumentEncoding {
  std::string task = "prepare";                ///< label of the progress
  std::vector<std::string> json_keys{"text"};  ///< each has the documents of one sink
  std::optional<TokenId> end_of_text;          ///< written after each document
  uint64_t width = sizeof(uint16_t);           ///< bytes per id for the sinks, 2 or 4
  uint64_t border = 0;                       ///< > 0: a text file is two documents, cut after this number of characters
  uint64_t most_documents = 0;               ///< > 0: the rest of the input is ignored
  uint64_t most_bytes = kMostDocumentBytes;  ///< limit of a document that must be in memory completely
  bool strict = false;                       ///< the first malformed line throws Error::data
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;
  EncodingState from;  ///< resume there; the sinks have the documents before
  /// Called occasionally, once everything before a place is in the sinks. Empty: never.
  std::function<void(const EncodingState&)> save;
};

/// Throws Error::stopped if the flag is set.
void check_stop(const std::atomic<bool>* stop);

/// One sink per key. Lines that lack a key or are malformed, and empty files, are skipped for all sinks: warnings name
/// the first ten lines, all are counted. Text files are documents of the only key. Throws Error::io, Error::data,
/// Error::usage (text files with several keys), Error::stopped.
EncodingState encode_documents(const std::vector<InputFile>& files, const Tokenizer& tokenizer,
                               const DocumentEncoding& options, std::span<DocumentSink* const> sinks);

}  // namespace trireme
