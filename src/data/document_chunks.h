#pragma once
// Input files as a row of chunks of about a megabyte: what one worker takes at a time. A chunk is whole lines of a
// jsonl file, or a part of one text document that ends where the tokenizer may be cut.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/input_files.h"

namespace trireme {

struct DocumentChunk {
  std::string bytes;  ///< the chunk, with kPadding unused bytes behind it
  size_t size = 0;
  InputKind kind = InputKind::text;
  bool ends_document = false;  ///< text: the file ends here; an empty file is one empty chunk
  uint64_t first_line = 1;     ///< jsonl: number of the first line in its file
  const std::string* path = nullptr;
  uint64_t progress = 0;  ///< bytes of all files consumed up to and including this chunk

  static constexpr size_t kPadding = 64;  // what the JSON parser may read beyond its input
  std::string_view text() const { return {bytes.data(), size}; }
};

class DocumentChunks {
 public:
  /// First place at or after an offset where text may be cut; text.size() for none. See Tokenizer::cut().
  using Cut = std::function<size_t(std::string_view, size_t)>;

  /// `files` must outlive the reader. border > 0: a text file is two documents, its first `border` bytes and the rest.
  DocumentChunks(const std::vector<InputFile>& files, Cut cut, uint64_t border = 0,
                 size_t target_bytes = size_t{1} << 20);

  /// Fills the next chunk; false at the end. Throws Error::io, Error::data.
  bool next(DocumentChunk& chunk);

 private:
  bool fill(DocumentChunk& chunk, size_t to);
  bool next_text(DocumentChunk& chunk);
  bool next_lines(DocumentChunk& chunk);
  void begin_chunk(DocumentChunk& chunk);
  void keep_rest(DocumentChunk& chunk, size_t end);

  const std::vector<InputFile>& files_;
  Cut cut_;
  uint64_t border_;
  size_t target_;
  size_t file_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::string rest_;      // read, but not given away yet
  bool at_end_ = false;   // the source has no more
  uint64_t line_ = 1;     // of rest_
  uint64_t given_ = 0;    // bytes of the file in earlier chunks
  uint64_t earlier_ = 0;  // bytes of the files before
};

}  // namespace trireme
