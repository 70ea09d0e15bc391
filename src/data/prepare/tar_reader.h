#pragma once
// Reads the regular files of a tar archive in order: the old format, ustar, GNU's long names and pax headers.

#include <cstdint>
#include <memory>
#include <string>

#include "data/prepare/byte_source.h"

namespace trireme {

class TarReader {
 public:
  /// `from`: the uncompressed archive; `path` names it in errors.
  TarReader(std::unique_ptr<ByteSource> from, std::string path);

  /// Goes to the next regular file, skipping the unread rest of the last one; false at the end. Throws Error::data (not
  /// a tar archive, damaged, truncated).
  bool next();
  /// Name of the current file.
  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  /// Reads from the current file; 0 at its end.
  size_t read(char* to, size_t size);
  uint64_t consumed() const { return from_->consumed(); }

 private:
  bool read_block(char* block);
  void read_exactly(char* to, size_t size);
  std::string read_body(uint64_t size);
  void skip_rest();

  std::unique_ptr<ByteSource> from_;
  std::string path_, name_;
  uint64_t size_ = 0, left_ = 0, padding_ = 0;
  bool first_ = true;
};

}  // namespace trireme
