#include "cli/sample/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/output_path.h"

namespace trireme {

SampleFile::SampleFile(std::string path) : path_(std::move(path)) {
  OutputTarget target = output_target(path_);
  const bool stream = target.is_stream;
  if (!stream) path_ = std::move(target.path);
  partial_ = stream ? path_ : path_ + ".partial";
  if (!stream) unlink(partial_.c_str());  // of an earlier run
  const int fd = stream ? open_stream(target, kReaderSeconds) : create_new(partial_, 0644);
  require(fd >= 0, ErrorKind::io, "cannot create {}: {}", partial_, std::strerror(errno));
  file_ = fdopen(fd, "w");
}

SampleFile::~SampleFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (partial_ == path_) return;
  if (lines_ == 0) {
    std::remove(partial_.c_str());
  } else {
    const bool renamed = std::rename(partial_.c_str(), path_.c_str()) == 0;
    log::warning("the finished samples are in {}, with {}", renamed ? path_ : partial_, count_text(lines_, "sample"));
  }
}

void SampleFile::write(const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
  require(written, ErrorKind::io, "cannot write {}: {}", partial_, reason_of_write(errno));
  ++lines_;
}

void SampleFile::commit() {
  const bool published =
      partial_ == path_ || (fsync(fileno(file_)) == 0 && std::rename(partial_.c_str(), path_.c_str()) == 0);
  require(published, ErrorKind::io, "cannot publish {}: {}", path_, reason_of_write(errno));
  std::fclose(file_);
  file_ = nullptr;
  log::info("wrote {} to {}", count_text(lines_, "sample"), path_);
}

Printer::Printer(Process& process)
    : scalars_(process.world()),
      by_lines_(process.launcher().kind != Launcher::Kind::none && isatty(STDOUT_FILENO) == 0) {}

void Printer::put(std::string_view text) const {
  if (!prints()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!by_lines_ || text.find('\n') != std::string_view::npos) std::fflush(stdout);
}

}  // namespace trireme
