#pragma once
// Files: read-only maps, and atomic writes.

#include <cstddef>
#include <cstdint>
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

enum class Flush : uint8_t {
  to_disk,  ///< before it appears, so that it survives a power cut
  later,    ///< by the system: no call waits for the disk, or for the reader of a pipe
};

/// A file that appears under its name only at commit(): written as NAME.tmp-HOST-PID-COUNT, a new file in the same
/// folder, fsync, rename, fsync of the folder. Without commit() the destructor removes the temporary file. mode: its
/// permissions. Symbolic links are followed, and what is not a file (a pipe, a device, /dev/stdout) is written as it is
/// (base/output_path.h). Throws Error::io naming path, bytes and the system's reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, unsigned mode = 0644, Flush flush = Flush::to_disk);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void write_at(size_t offset, std::span<const std::byte> bytes);
  void commit();

 private:
  const std::string& written() const { return temporary_.empty() ? path_ : temporary_; }

  std::string path_;       ///< as given; then the file that it names
  std::string temporary_;  ///< empty: a stream
  Flush flush_;
  int fd_ = -1;
};

/// Makes a file that did not exist, never through a link; the descriptor, or -1 with errno.
int create_new(const std::string& path, unsigned mode);
/// ".tmp-HOST-PID-COUNT": no other process or thread gives the same name.
std::string temporary_suffix();
/// What a failed write says: the system's reason, and which limit was met by "File too large".
std::string reason_of_write(int error);

/// A complete file as text, at most max_bytes. Throws Error::io.
std::string read_text(const std::string& path, size_t max_bytes = size_t{1} << 32);
/// The same; empty if it is missing, as what /proc has of a process that has ended or that this user may not see.
std::string read_text_if_there(const std::string& path);
/// AtomicFile in one call.
void write_text(const std::string& path, std::string_view text, unsigned mode = 0644, Flush flush = Flush::to_disk);
/// fsync of a folder, so that a rename in it survives a power cut.
void sync_folder(const std::string& path);

}  // namespace trireme
