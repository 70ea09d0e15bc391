#include "cluster/launch/start_probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cluster/process_tree.h"

namespace trireme::launch {
namespace {

/// Sockets of this host's established TCP connections.
std::set<std::string> connected_sockets() {
  std::set<std::string> inodes;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream fields(line);
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      fields >> number >> local >> remote >> state >> queues >> timer >> retransmits >> user >> timeout >> inode;
      if (state == "01") inodes.insert("socket:[" + inode + "]");
    }
  }
  return inodes;
}

bool holds_one_of(int pid, const std::set<std::string>& sockets) {
  std::error_code gone;
  for (const auto& file : std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
    if (sockets.contains(std::filesystem::read_symlink(file.path(), gone).string())) return true;
  }
  return false;
}

}  // namespace

Json probe_start(const std::string& daemon, const std::string& ranks) {
  const std::set<int> daemons = processes_with(daemon);
  const std::set<std::string> sockets = connected_sockets();
  return {{"daemon", !daemons.empty()},
          {"connected", std::ranges::any_of(daemons, [&](int pid) { return holds_one_of(pid, sockets); })},
          {"ranks", processes_with(ranks).size()}};
}

std::vector<Problem> hosts_not_started(StarterKind kind, const std::vector<std::string>& hosts,
                                       const std::vector<Json>& answers, const std::vector<Problem>& unseen,
                                       const std::string& here) {
  const auto runs = [](const Json& answer) { return !answer.is_null() && answer.at("ranks").get<int>() > 0; };
  // mpirun starts ranks when all its daemons are connected; srun starts each node's ranks independently.
  if (kind != StarterKind::srun && std::ranges::any_of(answers, runs)) return {};
  std::vector<Problem> problems = unseen;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (answers[i].is_null() || runs(answers[i])) continue;
    if (kind == StarterKind::srun) {
      problems.push_back({hosts[i], "Slurm has started no rank there", "check the log of slurmd on that node"});
    } else if (hosts[i] == here) {
      continue;
    } else if (!answers[i].at("daemon").get<bool>()) {
      problems.push_back({hosts[i], "mpirun's daemon is not running there", "check the output of its remote shell"});
    } else if (!answers[i].at("connected").get<bool>()) {
      problems.push_back(
          {hosts[i], "mpirun's daemon is running there but has not connected back",
           "check that it belongs to this MPI, and that no firewall blocks its connection to this host"});
    }
  }
  if (problems.empty() && !std::ranges::all_of(answers, runs)) {
    problems.push_back({"mpirun", "its daemons are connected but no rank is running", "check its output"});
  }
  return problems;
}

}  // namespace trireme::launch
