#include "cluster/health/detached.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/opened_file.h"

namespace trireme::health {

std::optional<Report> last_report(const std::string& path, const std::string& boot_id) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  try {
    const Json document = read_json(path);
    if (document.value("boot_id", "") != boot_id) return std::nullopt;
    return report_from_json(document.value("report", Json::object()), path);
  } catch (const std::exception& e) {
    // A bad file must not block the checks of a node forever.
    log::warning("ignoring the last result: {}", e.what());
    return std::nullopt;
  }
}

void save_report(const std::string& path, const std::string& boot_id, const Report& report) {
  write_text(path, dump_json(Json{{"boot_id", boot_id}, {"report", to_json(report)}}, 2) + "\n");
}

std::string this_boot_id() {
  std::string text = read_text("/proc/sys/kernel/random/boot_id");
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

bool run_in_background(const std::string& path, const std::function<void()>& body) {
  const std::string lock = path + ".lock";
  const int fd = open_for_writing(lock, O_RDWR | O_CREAT);
  require(fd >= 0, ErrorKind::io, "cannot open {}: {}", lock, std::strerror(errno));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    close(fd);
    return false;
  }
  const pid_t child = fork();
  require(child >= 0, ErrorKind::io, "cannot start the background run: {}", std::strerror(errno));
  if (child == 0) {
    setsid();
    if (fork() != 0) _exit(0);  // double fork: no process has to wait for the grandchild
    const int null = open("/dev/null", O_RDWR);
    for (int stream = 0; stream < 3; ++stream) dup2(null, stream);
    try {
      body();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  close(fd);  // the grandchild's copy keeps the lock
  waitpid(child, nullptr, 0);
  return true;
}

}  // namespace trireme::health
