#include "checkpoint/run_folder/run_control.h"

#include <fmt/ranges.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/json_fields.h"
#include "base/json_text.h"

namespace trireme {
namespace {

constexpr size_t kMostBytes = 1 << 16;

Json to_json(const ControlPlace& place) {
  return {{"host", place.host}, {"boot_id", place.boot_id}, {"pid", place.pid}, {"addresses", place.addresses}};
}

ControlPlace place_of(const Json& json, const std::string& path) {
  ControlPlace place{json_field<std::string>(json, "host", path),
                     json_field<std::string>(json, "boot_id", path),
                     json_field<int64_t>(json, "pid", path),
                     {}};
  for (const Json& address : json_array(json, "addresses", path)) {
    require(address.is_string(), ErrorKind::data, "{}: an address is not a string", path);
    place.addresses.push_back(address.get<std::string>());
  }
  return place;
}

std::string name_of(uid_t user) {
  const passwd* entry = getpwuid(user);
  return entry ? entry->pw_name : fmt::format("user {}", user);
}

}  // namespace

ControlPlace ControlPlace::here(std::vector<std::string> addresses) {
  return {host_name(), trireme::boot_id(), getpid(), std::move(addresses)};
}

bool ControlPlace::is_on_this_host() const { return host == host_name() && boot_id == trireme::boot_id(); }

bool ControlPlace::is_gone() const {
  // After a reboot of the host none of its old processes exist.
  if (host == host_name() && !boot_id.empty() && boot_id != trireme::boot_id()) return true;
  return is_on_this_host() && kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

std::vector<std::string> ControlPlace::usable() const {
  if (is_on_this_host()) return {addresses.rbegin(), addresses.rend()};
  std::vector<std::string> reachable;
  for (const std::string& address : addresses) {
    if (!address.starts_with("127.")) reachable.push_back(address);
  }
  return reachable;
}

std::string control_path(const std::string& run_dir) { return run_dir + "/control.json"; }

void write_control(const std::string& run_dir, const RunControl& control) {
  Json json{{"secret", control.secret}, {"job", to_json(control.job)}};
  if (control.launch) json["launch"] = to_json(*control.launch);
  write_text(control_path(run_dir), dump_json(json) + "\n", 0600);
}

std::optional<RunControl> read_control(const std::string& run_dir) {
  const std::string path = control_path(run_dir);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0 && errno == ENOENT) return {};
  require(access(path.c_str(), R_OK) == 0, ErrorKind::io,
          "{} belongs to {}: only that user may query, stop or follow this job; its log is in metrics.jsonl", path,
          name_of(info.st_uid));
  const Json json = read_json(path, kMostBytes);
  RunControl control{json_field<std::string>(json, "secret", path), place_of(json_member(json, "job", path), path), {}};
  if (json.contains("launch")) control.launch = place_of(json["launch"], path);
  return control;
}

void remove_control(const std::string& run_dir, const std::string& secret) {
  try {
    const auto found = read_control(run_dir);
    if (found && found->secret == secret) unlink(control_path(run_dir).c_str());
  } catch (const Error&) {
    // Owned by another job, or unreadable: not ours to remove.
  }
}

std::string to_word(const ControlPlace& place) {
  return fmt::format("{},{},{},{}", place.host, place.boot_id, place.pid, fmt::join(place.addresses, ","));
}

std::optional<ControlPlace> place_from_word(const std::string& word) {
  ControlPlace place;
  std::istringstream parts(word);
  std::string pid;
  if (!std::getline(parts, place.host, ',') || !std::getline(parts, place.boot_id, ',') ||
      !std::getline(parts, pid, ','))
    return {};
  const auto [end, error] = std::from_chars(pid.data(), pid.data() + pid.size(), place.pid);
  if (error != std::errc{} || end != pid.data() + pid.size()) return {};
  for (std::string address; std::getline(parts, address, ',');) place.addresses.push_back(address);
  if (place.addresses.empty()) return {};
  return place;
}

}  // namespace trireme
