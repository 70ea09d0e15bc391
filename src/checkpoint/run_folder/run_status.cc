#include "checkpoint/run_folder/run_status.h"

#include <unistd.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "base/opened_file.h"
#include "base/printable.h"

namespace trireme {
namespace {

constexpr size_t kMostMessageBytes = 2000, kMostWordBytes = 500;  // JSON can double them

}  // namespace

std::string status_path(const std::string& run_dir) { return run_dir + "/status.json"; }

std::string status_text(const RunStatus& status) {
  return dump_json(Json{{"state", name_of(status.state)},
                        {"code", status.code},
                        {"step", status.step},
                        {"rank", status.rank},
                        {"host", printable(status.host, kMostWordBytes)},
                        {"message", printable(status.message, kMostMessageBytes)},
                        {"control", printable(status.control, kMostWordBytes)},
                        {"requeue", status.requeue}}) +
         "\n";
}

void write_status(const std::string& run_dir, const RunStatus& status) {
  write_text(status_path(run_dir), status_text(status));
}

RunStatus read_status(const std::string& run_dir) {
  const std::string path = status_path(run_dir);
  const Json json = read_json(path, 1 << 16);
  const auto word = json_field<std::string>(json, "state", path);
  const std::optional<RunState> state = value_named<RunState>(word);
  require(state.has_value(), ErrorKind::data, "{}: \"{}\" is not a state of a run", path, word);
  return {*state, static_cast<int>(json_field<int64_t>(json, "code", path)), json_field<int64_t>(json, "step", path),
          static_cast<int>(json_field<int64_t>(json, "rank", path)), json_field<std::string>(json, "host", path),
          json_field<std::string>(json, "message", path), json_field<std::string>(json, "control", path),
          // Missing in files of earlier versions.
          !json.contains("requeue") || json_field<bool>(json, "requeue", path)};
}

StatusReserve::StatusReserve(std::string run_dir) : run_dir_(std::move(run_dir)), path_(run_dir_ + "/status.reserve") {
  // Bytes that were written, not only promised: some file systems take a promise back.
  const std::string blanks(kMostStatusBytes, ' ');
  unlink(path_.c_str());  // of a killed job
  fd_ = create_new(path_, 0644);
  if (fd_ < 0 ||
      (pwrite(fd_, blanks.data(), blanks.size(), 0) == static_cast<ssize_t>(blanks.size()) && fsync(fd_) == 0))
    return;
  close(std::exchange(fd_, -1));
  unlink(path_.c_str());
}

StatusReserve::~StatusReserve() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(path_.c_str());
}

void StatusReserve::write(const RunStatus& status) {
  try {
    write_status(run_dir_, status);
  } catch (const Error&) {
    std::string text = status_text(status);
    if (fd_ < 0 || text.size() > kMostStatusBytes) throw;
    // Keeps the file's size: blanks after the text are white space to JSON readers.
    text.resize(kMostStatusBytes, ' ');
    const bool written = pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
    if (!written || rename(path_.c_str(), status_path(run_dir_).c_str()) != 0) throw;
    static_cast<void>(fsync(fd_));
    close(std::exchange(fd_, -1));
  }
}

}  // namespace trireme
