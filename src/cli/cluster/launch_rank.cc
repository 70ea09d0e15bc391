#include "cli/cluster/launch.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/write_signals.h"
#include "cli/launch_file.h"

namespace trireme {
namespace {

/// The first given option that the launcher of this process has already decided; empty: none.
std::string launcher_option(const LaunchRequest& request) {
  const HostRequest& hosts = request.hosts;
  const std::pair<const char*, bool> given[] = {{"--hostfile", !hosts.hostfile.empty()},
                                                {"--hosts", !hosts.hosts.empty()},
                                                {"--sinfo", !hosts.sinfo.empty()},
                                                {"--slurm", hosts.slurm},
                                                {"--include", !hosts.include.empty()},
                                                {"--exclude", !hosts.exclude.empty()},
                                                {"--num-nodes", hosts.num_nodes > 0},
                                                {"--ppn", request.placement.per_host > 0},
                                                {"--gpus-per-node", request.gpus_per_node > 0},
                                                {"--mpirun", !request.starter.program.empty()},
                                                {"--interface", !request.interface.empty()},
                                                {"--port", request.port > 0},
                                                {"--health", !request.health_config.empty()},
                                                {"--max-restarts", request.max_restarts > 0},
                                                {"--drop-bad-hosts", request.drop_bad_hosts},
                                                {"--drop-failed-host", request.drop_failed_host},
                                                {"--spares", request.spares > 0},
                                                {"--log-dir", !request.log_folder.empty()},
                                                {"--start-timeout", request.start_seconds >= 0},
                                                {"--timestamps", request.times},
                                                {"--requeue", request.requeue},
                                                {"--dry-run", request.dry_run},
                                                {"--preflight-only", request.preflight_only}};
  for (const auto& [name, is_given] : given) {
    if (is_given) return name;
  }
  return "";
}

void check(LaunchRequest& request, const std::string& file, const Launcher& starter) {
  const std::string option = launcher_option(request);
  require(option.empty(), ErrorKind::usage,
          "{} has already started this process as a rank, so {} has no effect; remove it, or run `trireme launch` "
          "without {}",
          starter.name, option, starter.name);
  const int wanted = request.placement.processes;
  require(wanted == 0 || starter.size == 0 || wanted == starter.size, ErrorKind::mismatch,
          "--np is {}, but {} started {} ({}); use the same number for both", wanted, starter.name,
          count_text(starter.size, "rank"), starter.variable);
  if (file.empty()) return;
  request.placement.processes = starter.size;
  const std::string note = apply_launch_file(file, request);
  if (!note.empty() && starter.rank <= 0) log::info("launch: {}", note);
}

}  // namespace

bool is_rank(const Launcher& starter) {
  // torchrun's processes cannot be ranks; the variables of a similar launcher do not prevent launch from starting
  // ranks.
  if (starter.kind == Launcher::Kind::none || starter.kind == Launcher::Kind::torch) return false;
  return starter.kind != Launcher::Kind::slurm || starter.size > 1;
}

int become_rank(LaunchRequest request, const std::string& file, const Launcher& starter) {
  try {
    check(request, file, starter);
    std::vector<std::string> words = rank_command(request);
    if (starter.rank <= 0) {
      log::info("launch: {} started {} and chose hosts and placement", starter.name, count_text(starter.size, "rank"));
    }
    for (const std::string& variable : request.variables) {
      const size_t equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    restore_write_signals();
    execvp(argv[0], argv.data());
    fail(ErrorKind::usage, "cannot run {}: {}", words[0], std::strerror(errno));
  } catch (const Error& e) {
    if (starter.rank <= 0) throw;
    return exit_after_report(e.kind());
  }
}

}  // namespace trireme
