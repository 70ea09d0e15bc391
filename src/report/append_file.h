#pragma once
// A file that only grows, by whole records: a write that fails halfway (disk full) is cut off again, so that the file
// stays readable and the next write may succeed.

#include <string>
#include <string_view>

namespace trireme {

class AppendFile {
 public:
  /// Opens nothing yet: the first append() does, and creates the folder.
  explicit AppendFile(std::string path) : path_(std::move(path)) {}
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Appends all of `record` or nothing. Throws Error::io naming the path and the system's reason; may be called again.
  void append(std::string_view record);
  const std::string& path() const { return path_; }

 private:
  void open_file();

  std::string path_;
  int fd_ = -1;
};

/// Seconds since 1970.
double unix_time();

}  // namespace trireme
