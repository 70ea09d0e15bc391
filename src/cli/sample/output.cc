#include "cli/sample/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"

namespace trireme {

SampleFile::SampleFile(std::string path) : path_(std::move(path)), partial_(path_ + ".partial") {
  file_ = std::fopen(partial_.c_str(), "we");
  require(file_ != nullptr, ErrorKind::io, "cannot create {}: {}", partial_, std::strerror(errno));
}

SampleFile::~SampleFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (lines_ == 0) {
    std::remove(partial_.c_str());
  } else {
    const bool renamed = std::rename(partial_.c_str(), path_.c_str()) == 0;
    log::warning("the finished samples are in {}, with {}", renamed ? path_ : partial_, count_text(lines_, "sample"));
  }
}

void SampleFile::write(const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_) == line.size() && std::fflush(file_) == 0;
  require(written, ErrorKind::io, "cannot write {}: {}", partial_, std::strerror(errno));
  ++lines_;
}

void SampleFile::commit() {
  const bool flushed = fsync(fileno(file_)) == 0;
  require(flushed && std::rename(partial_.c_str(), path_.c_str()) == 0, ErrorKind::io, "cannot publish {}: {}", path_,
          std::strerror(errno));
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
