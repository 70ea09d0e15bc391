#include "cluster/process_tree.h"

#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/time.h"

namespace trireme {
namespace {

struct Stat {
  int parent = 0;
  char state = '?';
};

std::optional<Stat> read_stat(int pid) {
  const std::string text = read_text_if_there("/proc/" + std::to_string(pid) + "/stat");
  const size_t close = text.rfind(')');  // the name before it may contain any character
  if (close == std::string::npos || close + 4 > text.size()) return std::nullopt;
  return Stat{std::atoi(text.c_str() + close + 4), text[close + 2]};
}

}  // namespace

int parent_of(int pid) {
  const auto stat = read_stat(pid);
  return stat ? stat->parent : 0;
}

std::set<int> descendants_of(int pid) {
  std::multimap<int, int> children;
  std::set<int> ended;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = folder.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const int candidate = std::atoi(name.c_str());
    const auto stat = read_stat(candidate);
    if (!stat) continue;
    children.emplace(stat->parent, candidate);
    if (stat->state == 'Z' || stat->state == 'X') ended.insert(candidate);
  }
  std::set<int> found;
  std::vector<int> open = {pid};
  while (!open.empty()) {
    const auto [first, last] = children.equal_range(open.back());
    open.pop_back();
    for (auto child = first; child != last; ++child) {
      open.push_back(child->second);
      if (!ended.contains(child->second)) found.insert(child->second);
    }
  }
  return found;
}

std::set<int> processes_with(const std::string& assignment) {
  std::set<int> found;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = folder.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string text = read_text_if_there(folder.path() / "environ");
    if (('\0' + text).find('\0' + assignment + '\0') != std::string::npos) found.insert(std::atoi(name.c_str()));
  }
  return found;
}

void become_subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

void end_tree(int pid, const std::set<int>& spared) {
  kill(pid, SIGSTOP);
  const Clock::time_point start = Clock::now();
  for (;;) {
    std::set<int> doomed = descendants_of(pid);
    for (int root : spared) {
      doomed.erase(root);
      for (int below : descendants_of(root)) doomed.erase(below);
    }
    for (int victim : doomed) kill(victim, SIGKILL);
    if (doomed.empty() || seconds_since(start) > 1) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  kill(pid, SIGKILL);
}

}  // namespace trireme
