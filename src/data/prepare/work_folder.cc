#include "data/prepare/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
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

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kState = "state.json";
constexpr const char* kLock = "lock";

}  // namespace

WorkFolder::WorkFolder(std::string path, std::string job) : path_(std::move(path)), job_(std::move(job)) {
  fs::create_directories(path_);
  lock();
  try {
    has_saved_ = saved().has_value();
  } catch (const Error& e) {
    log::warning("{}; starting from the beginning", e.what());
  }
  if (!has_saved_) remove_content();
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;  // a destructor cannot report it
  if (!keep_) fs::remove_all(path_, ignored);
  close(lock_);
}

void WorkFolder::lock() {
  const std::string path = file(kLock);
  lock_ = open_for_writing(path, O_RDWR | O_CREAT);
  require(lock_ >= 0, ErrorKind::io, "cannot create {}: {}", path, std::strerror(errno));
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  const int reason = errno;
  close(lock_);
  require(reason == EWOULDBLOCK, ErrorKind::io, "cannot lock {}: {}", path, std::strerror(reason));
  fail(ErrorKind::locked, "another process prepares data in {}; wait for it, or give another --output", path_);
}

void WorkFolder::remove_content() const {
  for (const auto& entry : fs::directory_iterator(path_)) {
    if (entry.path().filename() != kLock) fs::remove_all(entry.path());
  }
}

std::optional<Json> WorkFolder::saved() const {
  const std::string path = file(kState);
  if (!fs::exists(path)) return std::nullopt;
  Json state = read_json(path);
  if (state.is_object() && state.value("job", "") == job_) return state;
  log::warning("{} belongs to a preparation with other input or flags; removed it", path_);
  return std::nullopt;
}

void WorkFolder::save(const Json& state) {
  Json named = state;
  named["job"] = job_;
  write_text(file(kState), dump_json(named, 1) + "\n");
  has_saved_ = true;
}

}  // namespace trireme
