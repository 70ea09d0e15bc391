#include "checkpoint/run_folder/run_status.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/opened_file.h"

namespace trireme {
namespace {

std::string path_of(const std::string& run_dir) { return run_dir + "/attempts.jsonl"; }

}  // namespace

void record_attempt(const std::string& run_dir, const AttemptRecord& attempt) {
  const Json record{{"time", attempt.time}, {"hosts", attempt.hosts}, {"ranks", attempt.ranks}};
  // The line break before it ends a line that a killed process left unfinished.
  const std::string line = "\n" + dump_json(record) + "\n";
  try {
    const int fd = open_for_writing(path_of(run_dir), O_WRONLY | O_CREAT | O_APPEND);
    require(fd >= 0, ErrorKind::io, "cannot open {}: {}", path_of(run_dir), std::strerror(errno));
    const bool written = write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size());
    const int reason = errno;
    close(fd);
    require(written, ErrorKind::io, "cannot write {}: {}", path_of(run_dir), std::strerror(reason));
  } catch (const Error& e) {
    log::warning("{}; trireme status will not count this attempt's node-hours", e.what());
  }
}

std::vector<AttemptRecord> read_attempts(const std::string& run_dir) {
  std::vector<AttemptRecord> attempts;
  std::istringstream lines(read_text_if_there(path_of(run_dir)));
  for (std::string line; std::getline(lines, line);) {
    try {
      const Json record = parse_json(line, "an attempt");
      attempts.push_back(
          {record.at("time").get<double>(), record.at("hosts").get<int>(), record.at("ranks").get<int>()});
    } catch (const std::exception&) {  // a part of a line, or an empty one
    }
  }
  return attempts;
}

}  // namespace trireme
