#pragma once
// A file that grows at its end and can be cut back to a size it had: what a killed run leaves is used again.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trireme {

class GrowingFile {
 public:
  /// Opens or makes the file and cuts it to `size` bytes. Throws Error::io, also when it has fewer.
  GrowingFile(std::string path, uint64_t size);
  GrowingFile(const GrowingFile&) = delete;
  GrowingFile& operator=(const GrowingFile&) = delete;
  ~GrowingFile();

  /// Goes to the file when the buffer is full, or with flush() or sync(). Throws Error::io.
  void append(std::span<const std::byte> bytes);
  void flush();
  /// flush(), and what was appended survives a power cut.
  void sync();
  /// Keeps the first `size` bytes, synced, under another path of the same file system. Nothing can be done afterwards.
  void move(const std::string& path, uint64_t size);
  /// Bytes at an offset, of what was flushed.
  void read(uint64_t offset, std::span<std::byte> bytes) const;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
  std::vector<std::byte> buffer_;
};

}  // namespace trireme
