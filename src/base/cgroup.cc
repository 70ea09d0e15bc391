#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNoMemoryLimit = int64_t{1} << 60;  // version 1 writes a page below 2^63 for "none"

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A mounted hierarchy: its group `top` is mounted at `point`.
struct Mount {
  std::string top, point;
};

/// Where the hierarchy of `controller` is mounted; an empty controller means version 2. Lines are
/// "id parent major:minor TOP POINT options [tags] - TYPE source SUPEROPTIONS".
std::optional<Mount> find_mount(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/mountinfo");
  for (std::string line; std::getline(in, line);) {
    const auto words = split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const bool fits =
        controller.empty() ? dash[1] == "cgroup2" : dash[1] == "cgroup" && has(split(dash[3], ','), controller);
    if (fits) return Mount{words[3], words[4]};
  }
  return std::nullopt;
}

/// This process's group in the hierarchy of `controller`. Lines are "id:controllers:path".
std::optional<std::string> find_group(const fs::path& root, const std::string& controller) {
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (controller.empty() ? controllers.empty() : has(split(controllers, ','), controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

/// Folders from this process's group up to the top of what is mounted.
std::vector<fs::path> group_folders(const fs::path& root, const std::string& controller) {
  const auto mount = find_mount(root, controller);
  auto group = find_group(root, controller);
  if (!mount || !group) return {};
  // A container sees its own group as the top of the mount, but its path from the host's top.
  if (mount->top != "/" && group->starts_with(mount->top)) group = group->substr(mount->top.size());
  const fs::path top = root / fs::path(mount->point).relative_path();
  std::vector<fs::path> folders{top};
  for (const std::string& part : split(*group, '/')) {
    if (!part.empty() && fs::exists(folders.back() / part)) folders.push_back(folders.back() / part);
  }
  return folders;
}

std::optional<int64_t> read_integer(const fs::path& path) {
  std::ifstream in(path);
  int64_t value = 0;
  return in >> value ? std::optional(value) : std::nullopt;  // version 2 writes "max" for no limit
}

/// The number after `key` in a file of "key number" lines; 0 if missing.
int64_t read_count(const fs::path& path, const std::string& key) {
  std::ifstream in(path);
  int64_t value = 0;
  for (std::string name; in >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

template <class T>
void tighten(T& limit, T value) {
  if (value > 0 && (limit == 0 || value < limit)) limit = value;
}

void tighten_cpus(double& limit, std::optional<int64_t> quota, std::optional<int64_t> period) {
  if (quota && period && *period > 0) tighten(limit, static_cast<double>(*quota) / static_cast<double>(*period));
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  for (const fs::path& folder : group_folders(root, "")) {
    std::ifstream in(folder / "cpu.max");  // "200000 100000" or "max 100000"
    int64_t quota = 0, period = 0;
    if (in >> quota >> period) tighten_cpus(limits.cpus, quota, period);
    if (const auto bytes = read_integer(folder / "memory.max")) {
      tighten(limits.memory_bytes, *bytes);
      // A group's count includes the groups below it.
      limits.oom_kills = std::max(limits.oom_kills, read_count(folder / "memory.events", "oom_kill"));
    }
  }
  for (const fs::path& folder : group_folders(root, "cpu")) {
    tighten_cpus(limits.cpus, read_integer(folder / "cpu.cfs_quota_us"), read_integer(folder / "cpu.cfs_period_us"));
  }
  for (const fs::path& folder : group_folders(root, "memory")) {
    const auto bytes = read_integer(folder / "memory.limit_in_bytes");
    if (!bytes || *bytes >= kNoMemoryLimit) continue;
    tighten(limits.memory_bytes, *bytes);
    limits.oom_kills += read_count(folder / "memory.oom_control", "oom_kill");  // each group counts its own
  }
  return limits;
}

int64_t memory_kills_on_host() {
  std::ifstream file("/proc/vmstat");
  int64_t value = 0;
  for (std::string name; file >> name >> value;) {
    if (name == "oom_kill") return value;
  }
  return 0;
}

}  // namespace trireme
