#pragma once
// Ids of all documents in the order of reading, on disk, before it is known which file each document belongs to.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/document_encoder.h"

namespace trireme {

/// A temporary file that is removed with the object. 8 bytes of memory per document.
class TokenSpool final : public DocumentSink {
 public:
  explicit TokenSpool(std::string path);
  TokenSpool(const TokenSpool&) = delete;
  TokenSpool& operator=(const TokenSpool&) = delete;
  ~TokenSpool() override;

  /// Ids up to 65535.
  void append(std::span<const TokenId> ids) override;
  /// What was appended since the last call is one document.
  void end_document() override;

  uint64_t documents() const { return ends_.size(); }

  struct Summary {
    uint64_t tokens = 0;
    std::vector<uint64_t> block_hashes;
  };
  /// Writes the documents to a token file, seen whole or not at all. No append() after it. Throws Error::io,
  /// Error::data when the file would be empty. `keep_going` is asked between blocks and may throw.
  Summary write(const std::string& path, std::span<const uint64_t> documents, const std::function<void()>& keep_going);

 private:
  uint64_t begin_of(uint64_t document) const { return document == 0 ? 0 : ends_[document - 1]; }
  void flush();
  void read(uint64_t token, std::span<uint16_t> ids);

  std::string path_;
  int fd_ = -1;
  std::vector<uint16_t> buffer_;
  std::vector<uint64_t> ends_;
  uint64_t tokens_ = 0;
};

}  // namespace trireme
