#include "train/guard/data_guard.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/log.h"

namespace trireme {
namespace {

// A signal handler can use only globals.
const DataGuard* guard = nullptr;

void say(const char* text) { static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text))); }

bool same_time(const timespec& a, const timespec& b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }

}  // namespace

DataGuard::DataGuard(const std::vector<DataFileFact>& files) {
  for (const DataFileFact& fact : files) {
    File file{.path = fact.path};
    if (stat(file.path.c_str(), &file.start) == 0) files_.push_back(std::move(file));
  }
  guard = this;
  std::signal(SIGBUS, handle_bus_error);
}

DataGuard::~DataGuard() {
  std::signal(SIGBUS, SIG_DFL);
  guard = nullptr;
}

void DataGuard::handle_bus_error(int signal) {
  for (const File& file : guard->files_) {
    struct stat now {};
    if (stat(file.path.c_str(), &now) != 0 || now.st_size >= file.start.st_size) continue;
    say("error: ");
    say(file.path.c_str());
    say(" was truncated while this run was reading it; restore the file and start again to resume from the last "
        "checkpoint\n");
    _exit(exit_code(ErrorKind::data));
  }
  std::signal(signal, SIG_DFL);  // not in a watched file: the same instruction raises the signal again
}

void DataGuard::check() {
  for (File& file : files_) {
    struct stat now {};
    const bool there = stat(file.path.c_str(), &now) == 0;
    const bool same_file = there && now.st_ino == file.start.st_ino && now.st_dev == file.start.st_dev;
    require(!same_file || now.st_size >= file.start.st_size, ErrorKind::data,
            "{} was truncated while this run was reading it: {} bytes now, {} at the start; restore the file and start "
            "again "
            "to resume from the last checkpoint",
            file.path, now.st_size, file.start.st_size);
    if (file.reported || (same_file && same_time(now.st_mtim, file.start.st_mtim))) continue;
    file.reported = true;
    log::warning("{} {} while this run was reading it; {}", file.path,
                 !there       ? "was removed"
                 : !same_file ? "was replaced by another file"
                              : "was written to",
                 same_file ? "this run may now train on other tokens than were prepared"
                           : "this run keeps reading the old file; the next start will read the new one");
  }
}

}  // namespace trireme
