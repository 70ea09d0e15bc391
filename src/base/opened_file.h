#pragma once
// The only way to open files: opening and reading never block forever, whatever the name refers to.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

enum class Accepts { regular, pipes_too };

/// A file to read. A folder, a socket or a device (except /dev/null, which is empty) is an error. So is a pipe, unless
/// pipes are accepted; then only a pipe into which no program writes within two seconds is.
class OpenedFile {
 public:
  /// Throws Error::io: the file cannot be opened, or is not a file.
  explicit OpenedFile(const std::string& path, Accepts accepts = Accepts::regular);
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile();

  /// Reads up to `size` bytes; 0 at the end. Throws Error::io.
  size_t read(char* to, size_t size);
  int fd() const { return fd_; }
  bool is_regular() const { return regular_; }
  uint64_t size() const { return size_; }  ///< 0 unless regular

 private:
  void wait_for_writer();

  std::string path_;
  int fd_ = -1;
  bool regular_ = false;
  uint64_t size_ = 0;
  std::optional<char> first_;  // read from a pipe while waiting for its writer
};

/// open() with these flags and O_CLOEXEC for a file to write; if it exists, it must be a regular file. Returns a
/// descriptor, below 0 with errno as open() does; throws Error::io if it is not a file.
int open_for_writing(const std::string& path, int flags);

}  // namespace trireme
