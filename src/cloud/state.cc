#include "cloud/state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json.h"
#include "base/json_text.h"

namespace trireme::cloud {
namespace {

std::string note_of(int fd) {
  std::array<char, 256> text{};
  const ssize_t n = pread(fd, text.data(), text.size() - 1, 0);
  return n > 0 ? std::string(text.data(), static_cast<size_t>(n)) : "unknown";
}

}  // namespace

StateFolder::StateFolder(const std::string& cluster_file)
    : path_(std::filesystem::path(cluster_file).replace_extension(".state")) {}

StateFolder::~StateFolder() {
  if (fd_ >= 0) close(fd_);
}

void StateFolder::lock() {
  std::filesystem::create_directories(path_);
  const std::string file = path_ + "/lock";
  fd_ = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  require(fd_ >= 0, ErrorKind::io, "cannot open {}: {}", file, std::strerror(errno));
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  const bool taken = fcntl(fd_, F_OFD_SETLK, &whole) != 0;
  require(!taken, ErrorKind::locked,
          "another `trireme cluster` is working on this cluster ({}, lock {}); wait until it has ended", note_of(fd_),
          file);
  const std::string note = fmt::format("process {} on {}", getpid(), host_name());
  const bool written =
      ftruncate(fd_, 0) == 0 && pwrite(fd_, note.data(), note.size(), 0) == static_cast<ssize_t>(note.size());
  require(written, ErrorKind::io, "cannot write {}: {}", file, std::strerror(errno));
}

State StateFolder::read() const {
  const std::string file = path_ + "/state.json";
  State state;
  if (!std::filesystem::exists(file)) return state;
  const Json json = read_json(file);
  const bool whole = json.is_object() && json.contains("run") && json["run"].is_string() && json.contains("first") &&
                     json["first"].is_number_integer() && json.contains("numbers") && json["numbers"].is_array() &&
                     !json["numbers"].empty();
  require(
      whole, ErrorKind::data,
      "{} was not written by `trireme cluster`; move it away, then `create` finds the existing resources by their tag",
      file);
  state.run = json["run"];
  state.first = json["first"];
  for (const Json& number : json["numbers"]) state.numbers.push_back(number.get<int>());
  state.pins = json.value("pins", state.pins);
  return state;
}

void StateFolder::write(const State& state) const {
  write_text(
      path_ + "/state.json",
      dump_json(Json{{"run", state.run}, {"first", state.first}, {"numbers", state.numbers}, {"pins", state.pins}}, 2) +
          "\n");
}

void StateFolder::forget() const {
  for (const char* name : {"state.json", "known_hosts"}) std::filesystem::remove(path_ + "/" + name);
  std::filesystem::remove_all(path_ + "/plan");
}

}  // namespace trireme::cloud
