#pragma once
// Bytes of an input from front to back.

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
  /// Passes over bytes. Throws Error::data when there are fewer.
  virtual void skip(uint64_t bytes);
};

/// The name of standard input.
constexpr const char* kStandardInput = "-";

/// Opens a file as it is, or standard input. Throws Error::io.
std::unique_ptr<ByteSource> open_bytes(const std::string& path);

/// Opens a file, decompressing it where its name says so. Throws Error::io.
std::unique_ptr<ByteSource> open_source(const std::string& path);

}  // namespace trireme
