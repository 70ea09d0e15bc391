#pragma once
// A file that only grows, by complete records: a partial write (disk full) is truncated, so that the file stays
// readable and the next write may succeed.

#include <cstdint>
#include <string>
#include <string_view>

namespace trireme {

/// A log continues in a new file at this size and keeps this number of older ones: two million records of a run, in at
/// most 600 MB.
constexpr uint64_t kLogBytes = uint64_t{64} << 20;
constexpr int kOlderLogs = 8;

class AppendFile {
 public:
  /// Does not open the file yet: the first append() does, and creates the folder.
  explicit AppendFile(std::string path) : path_(std::move(path)) {}
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  ~AppendFile();

  /// Appends all of `record` or nothing. Throws Error::io naming the path and the system's reason; may be called again.
  void append(std::string_view record);
  /// Bytes in the file; 0 if it is missing.
  uint64_t size() const;
  /// PATH becomes PATH.1, PATH.1 becomes PATH.2, and so on; the last of kOlderLogs is deleted. If the file system
  /// cannot rename them, the file continues to grow.
  void rotate();
  const std::string& path() const { return path_; }

 private:
  void open_file();

  std::string path_;
  int fd_ = -1;
};

/// Name of an older file of `path`; 1 is the newest.
std::string older_log(const std::string& path, int number);

/// Seconds since 1970.
double unix_time();

}  // namespace trireme
