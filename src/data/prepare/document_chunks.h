#pragma once
// Splits input files into chunks of half a megabyte: one worker's unit, so that it stays in the core's own cache. A
// chunk is complete lines of jsonl, or a part of one text document that ends where the tokenizer allows a cut.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/input_parts.h"

namespace trireme {

/// Default limit of a document (--max-document): memory grows by about 20 bytes per byte of it.
inline constexpr uint64_t kMostDocumentBytes = uint64_t{64} << 20;

/// The largest --max-document.
inline constexpr int64_t kMostDocumentMebibytes = 1 << 16;

struct DocumentChunk {
  std::string bytes;  ///< the chunk, followed by kPadding unused bytes
  size_t size = 0;
  InputKind kind = InputKind::text;         ///< text or json_lines
  bool ends_document = false;               ///< text: the file ends here
  uint64_t first_line = 1;                  ///< number of the line in its file that it begins in
  uint64_t first_column = 0;                ///< text: characters of that line before it
  uint64_t first_byte = 0;                  ///< decompressed bytes of its file before it
  std::shared_ptr<const std::string> name;  ///< of the file, for messages
  uint64_t file = 0;                        ///< index of its file
  InputPlace after;                         ///< where the next chunk begins
  uint64_t progress = 0;                    ///< bytes of all files consumed up to and including this chunk

  static constexpr size_t kPadding = 64;  // what the JSON parser may read beyond its input
  std::string_view text() const { return {bytes.data(), size}; }
};

class DocumentChunks {
 public:
  /// First place at or after an offset where text may be cut; text.size() if none. See Tokenizer::cut().
  using Cut = std::function<size_t(std::string_view, size_t)>;

  struct Options {
    uint64_t border = 0;  ///< > 0: a text file is two documents, its first `border` characters and the rest
    std::vector<std::string> columns{"text"};  ///< of parquet files
    InputPlace from = {};                      ///< a chunk's `after`: resume there
    size_t target_bytes = size_t{1} << 19;
    uint64_t most_bytes = kMostDocumentBytes;  ///< limit of a line, and of text that cannot be cut
  };

  /// `files` must outlive the reader.
  DocumentChunks(const std::vector<InputFile>& files, Cut cut, Options options);
  DocumentChunks(const std::vector<InputFile>& files, Cut cut) : DocumentChunks(files, std::move(cut), Options()) {}

  /// Fills the next chunk; an empty file is one empty chunk. False at the end. Throws Error::io, Error::data; the error
  /// for a line, or a text without a place to cut, longer than Options::most_bytes has that limit.
  bool next(DocumentChunk& chunk);

 private:
  void open_part();
  bool fill(DocumentChunk& chunk, size_t to);
  bool next_text(DocumentChunk& chunk);
  bool cut_text(DocumentChunk& chunk);
  bool next_lines(DocumentChunk& chunk);
  void begin_chunk(DocumentChunk& chunk);
  void keep_rest(DocumentChunk& chunk, size_t end);
  size_t larger(const DocumentChunk& chunk, size_t bytes) const;
  bool ends_at_border(DocumentChunk& chunk, size_t end, bool whole);

  Cut cut_;
  Options options_;
  InputParts parts_;
  bool open_ = false, resumed_ = false;
  std::string rest_;         // read, but not in a chunk yet
  bool at_end_ = false;      // end of the source
  uint64_t line_ = 1;        // of rest_
  uint64_t column_ = 0;      // characters of line_ before rest_
  uint64_t given_ = 0;       // bytes of the part in earlier chunks
  uint64_t characters_ = 0;  // of these, up to the border
};

// The documents of a chunk of jsonl. A line without one is reported with its number and skipped.

/// Parser of one worker.
class JsonLines {
 public:
  /// `keys`: the fields that hold documents; must be distinct.
  explicit JsonLines(std::vector<std::string> keys);
  JsonLines(JsonLines&&) noexcept;
  ~JsonLines();

  struct Handlers {
    /// One call per key, in their order; no call for a line that lacks one of them.
    std::function<void(size_t key, std::string_view text)> document;
    /// `line`: number in the file.
    std::function<void(uint64_t line, std::string reason)> fault;
  };
  /// Skips blank lines. Texts are valid until the next line.
  void parse(const DocumentChunk& chunk, const Handlers& handlers);

 private:
  struct Parser;
  std::string find_texts(std::string_view line);

  std::vector<std::string> keys_;
  std::vector<std::optional<std::string_view>> texts_;  // of the current line, by key
  std::unique_ptr<Parser> parser_;
};

}  // namespace trireme
