#include "cluster/launch/starter_probe.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cluster/subprocess.h"

namespace trireme::launch {

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
  // mpirun called by its path looks beside itself on every host, then in PATH.
  const std::string beside = (std::filesystem::path(program).parent_path() / daemon).string();
  std::string found = find_program(beside);
  if (found.empty()) found = find_program(daemon);
  const ProcessResult said = run_process({.arguments = {program, "--version"},
                                          .timeout = std::chrono::seconds(10),
                                          .input = "",
                                          .variables = {},
                                          .user = ""});
  std::string version;
  if (said.exit_code == 0) {
    const size_t line = said.out.find("Version:");  // Hydra's second line; Open MPI says it in the first
    const size_t begin = line == std::string::npos ? 0 : said.out.find_first_not_of(' ', line + 8);
    version = said.out.substr(begin, said.out.find('\n', begin) - begin);
  }
  return {{"daemon", found}, {"version", version}};
}

std::vector<Problem> judge_starters(const Starter& starter, const std::vector<std::string>& hosts,
                                    const std::vector<Json>& answers, const Json& own) {
  std::vector<Problem> problems;
  const std::string daemon = daemon_of(starter), expected = own.at("version");
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (answers[i].is_null()) continue;
    const std::string version = answers[i].at("version");
    if (answers[i].at("daemon").get<std::string>().empty()) {
      problems.push_back({hosts[i], fmt::format("it has no {}, which {} starts there", daemon, starter.path),
                          fmt::format("install the MPI of this host there ({})", expected)});
    } else if (!version.empty() && version != expected) {
      problems.push_back({hosts[i], fmt::format("its {} is \"{}\", here it is \"{}\"", starter.path, version, expected),
                          "install the same version on every host"});
    }
  }
  return problems;
}

}  // namespace trireme::launch
