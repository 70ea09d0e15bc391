#pragma once
// Sequential bytes of an input.

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
  /// Bytes of the file itself consumed so far, for progress.
  virtual uint64_t consumed() const = 0;
  /// Skips bytes. Throws Error::data if there are fewer.
  virtual void skip(uint64_t bytes);
};

/// The name of standard input.
constexpr const char* kStandardInput = "-";

/// Opens a file without decompression, or standard input. Throws Error::io.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// Opens a file and decompresses it according to its name. Throws Error::io.
std::unique_ptr<ByteSource> open_source(const std::string& path);

}  // namespace trireme
