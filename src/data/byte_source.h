#pragma once
// Bytes of an input file from front to back, decompressed where the name says that it is compressed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trireme {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Reads up to `size` bytes; 0 at the end. Throws Error::io, Error::data (damaged compression).
  virtual size_t read(char* to, size_t size) = 0;
  /// Bytes of the file itself that were consumed so far: what progress is measured in.
  virtual uint64_t consumed() const = 0;
};

/// Opens a file, decompressing NAME.gz and NAME.zst. Throws Error::io.
std::unique_ptr<ByteSource> open_source(const std::string& path);

/// The name without a compression suffix, lower case: what tells the format.
std::string uncompressed_name(const std::string& path);

}  // namespace trireme
