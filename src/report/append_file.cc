#include "report/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/opened_file.h"

namespace trireme {

AppendFile::~AppendFile() {
  if (fd_ >= 0) close(fd_);
}

void AppendFile::open_file() {
  std::error_code ignored;  // the open below reports the error
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  fd_ = open_for_writing(path_, O_RDWR | O_CREAT | O_APPEND);
  require(fd_ >= 0, ErrorKind::io, "cannot open {}: {}", path_, std::strerror(errno));
}

void AppendFile::append(std::string_view record) {
  if (fd_ < 0) open_file();
  const off_t start = lseek(fd_, 0, SEEK_END);
  size_t done = 0;
  while (done < record.size()) {
    const ssize_t n = ::write(fd_, record.data() + done, record.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) {
      done += static_cast<size_t>(n);
      continue;
    }
    const int reason = errno;
    if (done > 0 && start >= 0) static_cast<void>(!ftruncate(fd_, start));
    fail(ErrorKind::io, "cannot write {}: {}", path_, reason_of_write(reason));
  }
}

uint64_t AppendFile::size() const {
  struct stat info {};
  return stat(path_.c_str(), &info) == 0 ? static_cast<uint64_t>(info.st_size) : 0;
}

void AppendFile::rotate() {
  std::error_code ignored;
  for (int older = kOlderLogs - 1; older > 0; --older)
    std::filesystem::rename(older_log(path_, older), older_log(path_, older + 1), ignored);
  std::filesystem::rename(path_, older_log(path_, 1), ignored);
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string older_log(const std::string& path, int number) { return path + "." + std::to_string(number); }

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace trireme
