#pragma once
// Files: read-only maps, and atomic writes.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Read-only memory map of a complete file. Throws Error::io. An empty file maps to an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const std::string& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A file that appears under its name only at commit(): written as NAME.tmp-<pid> in the same folder, fsync, rename,
/// fsync of the folder. Without commit() the destructor removes the temporary file. mode: its permissions. Throws
/// Error::io naming path, bytes and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, unsigned mode = 0644);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void write_at(size_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  std::string path_, temporary_;
  int fd_ = -1;
};

/// A complete file as text, at most max_bytes. Throws Error::io.
std::string read_text(const std::string& path, size_t max_bytes = size_t{1} << 32);
/// The same; empty if the file cannot be read to its end, for example a file in /proc of a process that has just ended.
std::string read_text_if_there(const std::string& path);
/// AtomicFile in one call.
void write_text(const std::string& path, std::string_view text, unsigned mode = 0644);
/// fsync of a folder, so that a rename in it survives a power cut.
void sync_folder(const std::string& path);

}  // namespace trireme
