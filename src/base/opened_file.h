#pragma once
// The one way in which files are opened: whatever stands under the name, opening and reading end.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme {

enum class Accepts { regular, pipes_too };

/// A file that is read. A folder, a device (but /dev/null, which is empty) or a socket in its place is an error, and so
/// is a pipe, unless pipes are accepted: then one into which no program writes within two seconds is.
class OpenedFile {
 public:
  /// Throws Error::io: what could not be opened, or what stands there instead of a file.
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
  std::optional<char> first_;  // read from a pipe while its writer was waited for
};

/// open() with these flags and O_CLOEXEC for a file that is written; what is there already must be a regular file.
/// Returns a descriptor, below 0 with errno as open() does; throws Error::io for what is no file.
int open_for_writing(const std::string& path, int flags);

}  // namespace trireme
