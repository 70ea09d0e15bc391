#pragma once
// The documents of a chunk of jsonl. A line without one is reported with its number and skipped.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/document_chunks.h"

namespace trireme {

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
