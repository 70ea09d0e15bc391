#pragma once
// The documents of a chunk of jsonl. A line that has none is a fault of that line alone: it is reported with its number
// and the rest goes on.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "data/document_chunks.h"

namespace trireme {

/// Parser of one worker.
class JsonLines {
 public:
  /// `key`: the field that holds the document.
  explicit JsonLines(std::string key);
  JsonLines(JsonLines&&) noexcept;
  ~JsonLines();

  struct Handlers {
    std::function<void(std::string_view text)> document;
    /// `line`: number in the file.
    std::function<void(uint64_t line, std::string reason)> fault;
  };
  /// Blank lines are skipped. Texts live until the next line.
  void parse(const DocumentChunk& chunk, const Handlers& handlers);

 private:
  struct Parser;
  std::string key_;
  std::unique_ptr<Parser> parser_;
};

}  // namespace trireme
