#include "cluster/launch/start_probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cluster/launch/node_facts.h"
#include "cluster/subprocess.h"

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

namespace {

ProcessResult run(std::vector<std::string> words, double seconds) {
  return run_process({.arguments = std::move(words),
                      .timeout = std::chrono::duration<double>(seconds),
                      .input = "",
                      .variables = {},
                      .user = ""});
}

/// The first line of its version; empty if it does not run.
std::string version_of(const std::string& program) {
  const ProcessResult said = run({program, "--version"}, 10);
  if (said.exit_code != 0) return "";
  const size_t line = said.out.find("Version:");  // Hydra's second line; Open MPI's first line
  const size_t begin = line == std::string::npos ? 0 : said.out.find_first_not_of(' ', line + 8);
  return said.out.substr(begin, said.out.find('\n', begin) - begin);
}

/// The version of the mpirun in the daemon's folder; tries the name used here first.
std::string version_beside(const std::string& daemon, const std::string& program) {
  const std::filesystem::path folder = std::filesystem::path(daemon).parent_path();
  const std::string name = std::filesystem::path(program).filename();
  for (const std::string& candidate :
       {name, std::string("mpirun"), std::string("orterun"), std::string("prterun"), std::string("mpiexec.hydra")}) {
    const std::string path = find_program((folder / candidate).string());
    if (!path.empty()) return version_of(path);
  }
  return "";
}

}  // namespace

std::string daemon_of(const Starter& starter) {
  switch (starter.kind) {
    case StarterKind::open_mpi:
      return "orted";
    case StarterKind::prrte:
      return "prted";
    case StarterKind::hydra:
      return "hydra_pmi_proxy";
    default:
      return "";
  }
}

Json probe_starter(const std::string& program, const std::string& daemon) {
  const std::filesystem::path folder = std::filesystem::path(program).parent_path();
  const std::string beside = find_program((folder / daemon).string()), in_path = find_program(daemon);
  // The system's mpirun and its daemons are called by name; another mpirun uses its own folder on every host.
  const bool by_name = folder == "/usr/bin" || folder == "/bin";
  const std::string found = by_name ? (in_path.empty() ? beside : in_path) : (beside.empty() ? in_path : beside);
  if (found.empty()) return {{"daemon", ""}, {"version", version_of(program)}, {"print", ""}, {"answers", false}};
  const ProcessResult help = run({found, "--help"}, 5);
  const std::string said = help.out + help.err;
  return {{"daemon", found},
          {"version", version_beside(found, program)},
          {"print", file_fingerprint(found)},
          {"answers", !help.timed_out && said.find(daemon) != std::string::npos}};
}

std::vector<Problem> judge_starters(const Starter& starter, const std::vector<std::string>& hosts,
                                    const std::vector<Json>& answers, const Json& own) {
  std::vector<Problem> problems;
  const std::string daemon = daemon_of(starter), expected = own.at("version");
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (answers[i].is_null()) continue;
    const Json& answer = answers[i];
    const std::string found = answer.at("daemon"), version = answer.at("version");
    const bool same_file = answer.at("print") == own.at("print");
    const auto add = [&](std::string what, std::string fix) {
      problems.push_back({hosts[i], std::move(what), std::move(fix)});
    };
    if (found.empty()) {
      add(fmt::format("{} is missing there, which {} needs", daemon, starter.path),
          fmt::format("install the MPI of this host there ({})", expected));
    } else if (!version.empty() && version != expected) {
      const bool here = std::filesystem::path(found).parent_path() == std::filesystem::path(starter.path).parent_path();
      add(fmt::format("its {} is \"{}\", here it is \"{}\"", here ? starter.path : "mpirun beside " + found, version,
                      expected),
          here ? "install the same version on every host" : "put this host's MPI first in PATH there");
    } else if (!same_file && own.at("answers").get<bool>() && !answer.at("answers").get<bool>()) {
      add(fmt::format("its {} is another program: its --help does not mention {}", found, daemon),
          fmt::format("install this host's MPI there ({}), and put it first in PATH there", expected));
    } else if (!same_file && version.empty()) {
      add(fmt::format("its {} differs from this host's, and no mpirun beside it shows its version", found),
          fmt::format("install this host's MPI there ({}), and put it first in PATH there", expected));
    }
  }
  return problems;
}

}  // namespace trireme::launch
