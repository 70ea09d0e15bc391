#include "cluster/launch/starter_probe.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cluster/launch/node_facts.h"
#include "cluster/subprocess.h"

namespace trireme::launch {
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
