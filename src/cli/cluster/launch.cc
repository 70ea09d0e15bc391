// trireme launch: starts ranks on many hosts through mpirun or srun, and supervises them. Also its two remote ends,
// remote-shell (called by mpirun instead of ssh) and node-agent.

#include <algorithm>
#include <iostream>

#include "base/count.h"
#include "base/error.h"
#include "base/host.h"
#include "base/log.h"
#include "cli/cluster/host_flags.h"
#include "cli/cluster/launch.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/launch_file.h"
#include "cluster/launch/job.h"
#include "cluster/launch/node_agent.h"
#include "cluster/launch/remote_shell.h"
#include "comm/mpi.h"

namespace trireme {
namespace {

using namespace launch;

/// Replaces mpirun's spellings, of Intel MPI and Open MPI, by ours.
std::vector<std::string> translate_mpirun(std::vector<std::string> words) {
  std::vector<std::string> own;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto next = [&] {
      require(i + 1 < words.size(), ErrorKind::usage, "launch: {} needs a value", word);
      return words[++i];
    };
    if (word == "--") {
      own.insert(own.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (word == "-n" || word == "-np") {
      own.insert(own.end(), {"--np", next()});
    } else if (word == "-ppn" || word == "-perhost") {
      own.insert(own.end(), {"--ppn", next()});
    } else if (word == "-hostfile" || word == "-machinefile") {
      own.insert(own.end(), {"--hostfile", next()});
    } else if (word == "-hosts") {
      own.insert(own.end(), {"--hosts", next()});
    } else if (word == "-iface") {
      own.insert(own.end(), {"--interface", next()});
    } else if (word == "-genv" || word == "-env") {  // NAME VALUE or NAME=VALUE
      const std::string name = next();
      own.insert(own.end(), {"--env", name.find('=') == std::string::npos ? name + "=" + next() : name});
    } else if (word == "-x") {  // NAME=VALUE, or NAME with the value that it has here
      const std::string name = next();
      const char* value = environment_variable(name.c_str());
      const bool whole = name.find('=') != std::string::npos;
      require(whole || value != nullptr, ErrorKind::usage,
              "launch: -x {}: the variable is not set here; write -x {}=VALUE", name, name);
      own.insert(own.end(), {"--env", whole ? name : name + "=" + value});
    } else if (word == "--mca" || word == "-mca" || word == "--gmca" || word == "-gmca") {  // NAME VALUE
      const std::string name = next();
      own.insert(own.end(), {"--env", fmt::format("OMPI_MCA_{}={}", name, next())});
    } else if (word == "-pernode" || word == "--pernode") {
      own.insert(own.end(), {"--ppn", "1"});
    } else {
      own.push_back(word);
    }
  }
  return own;
}

/// `launch -- train --help` shows the help of train.
std::optional<int> show_help(const LaunchRequest& request) {
  const auto asks = [](const std::string& word) { return word == "--help" || word == "-h"; };
  const std::vector<std::string>& words = request.command;
  if (request.any_program || std::none_of(words.begin(), words.end(), asks)) return std::nullopt;
  for (const Command& command : commands()) {
    if (words[0] == command.name) return command.run(std::vector<std::string>(words.begin() + 1, words.end()));
  }
  return std::nullopt;
}

/// Adds what a flag of launch means to the command of the ranks, where that trains: before its other words, which win.
void add_to_training(LaunchRequest& request, const char* flag, const std::vector<std::string>& words) {
  const std::string name = request.any_program ? "a program" : "trireme " + request.command[0];
  const bool trains =
      name == "trireme train" || name == "trireme sft" || name == "trireme dpo" || name == "trireme glue";
  require(trains, ErrorKind::usage,
          "launch {0}: the command is {1}, expected trireme train, sft, dpo or glue; remove {0}", flag, name);
  request.command.insert(request.command.begin() + 1, words.begin(), words.end());
}

}  // namespace

int run_launch(CommandLine line) {
  Flags app(std::move(line), "trireme launch",
            "Starts ranks on many hosts through mpirun or srun, and supervises them.");
  app.set_footer("After -- comes a command of trireme: `trireme launch -f hosts -- train config.yaml`.");
  LaunchRequest request;
  std::string file;
  bool cpu = false;
  int threads = 0;
  app.takes_command(request.command);
  add_host_flags(app, request.hosts);
  app.add("--np", request.placement.processes, "total number of ranks (also -n, -np); default: the slots of the hosts")
      .positive();
  app.add("--ppn", request.placement.per_host, "ranks per host (also -ppn)").positive();
  app.add("--gpus-per-node", request.gpus_per_node,
          "GPUs that every host must have, checked by preflight; a rank for each unless --np or --ppn says otherwise")
      .in_range(1, 1024);
  app.add("--env", request.variables, "NAME=VALUE for every rank, repeatable (also -genv)").one_value();
  app.add("--starter", request.starter.wanted, "auto, openmpi, hydra or srun").show_default();
  app.add("--mpirun", request.starter.program, "path of the mpirun to use");
  app.add("--interface", request.interface,
          "network of the ranks: eth0 or 10.0.0.0/24; default: selected automatically (also -iface)");
  app.add("--port", request.port, "port that must be free on every host, checked by preflight").in_range(1, 65535);
  add_remote_flags(app, request.remote);
  app.add("--max-restarts", request.max_restarts,
          "restart up to N times after a lost peer (76) or a rank killed by a signal")
      .not_negative();
  app.add("--wait-for-hosts", request.wait_minutes, "minutes that a restart waits for every host to pass preflight")
      .not_negative()
      .show_default();
  app.add("--spares", request.spares, "keep the last N hosts as spares that replace failed ones").not_negative();
  app.add("--start-timeout", request.start_seconds,
          "seconds to wait for the first message of a rank, otherwise exit code 76; default: the command's "
          "run.start-timeout, 120; 0: no limit")
      .not_negative();
  app.add("--log-dir", request.log_folder, "also write each rank's lines to a file in this folder");
  app.add_switch("--timestamps", request.times, "print the time before every line, also in the files of --log-dir");
  app.add_switch("--drop-bad-hosts", request.drop_bad_hosts,
                 "skip hosts that fail preflight, at the start and before a restart");
  app.add_switch("--drop-failed-host", request.drop_failed_host, "restart without the host of the lost rank");
  app.add("--health", request.health_config, "NHC configuration file that every host must pass first").not_empty();
  app.add("--stop-timeout", request.stop_seconds, "maximum seconds for a stop; then the job is killed")
      .not_negative()
      .show_default();
  app.add_switch("--requeue", request.requeue, "in a Slurm job: requeue it if it stopped with exit code 75");
  app.add("--max-requeues", request.max_requeues, "with --requeue: also after a lost rank, at most N times in total")
      .not_negative();
  app.add_switch("--cpu", cpu,
                 "the ranks of train, sft, dpo or glue compute on CPUs even if there are GPUs (also --use_cpu)");
  app.add("--threads", threads,
          "compute threads per rank of train, sft, dpo or glue, as --launch.threads after the command (also "
          "--num_cpu_threads_per_process)")
      .in_range(1, 1024);
  app.add_switch("--dry-run", request.dry_run, "print the exact commands, then exit");
  app.add_switch("--preflight-only", request.preflight_only, "check the hosts, then exit");
  app.add_switch("--skip-preflight", request.skip_preflight, "start without checking the hosts");
  app.add_switch("--program", request.any_program, "COMMAND is any program, not a command of trireme");
  app.add(
      "--container", request.container,
      "words before the program of each rank, which start a container: \"apptainer exec IMAGE\"; in it trireme must "
      "be in PATH (docs/cluster.md)");
  app.add("--config-file", file, "file of `trireme config wizard` or `accelerate config`; flags override it")
      .not_empty();
  if (const auto code = app.parse(translate_mpirun(app.words()))) return *code;
  require(request.container.find_first_of("'\"\\$") == std::string::npos, ErrorKind::usage,
          "--container {}: quotes, \\ and $ have no meaning there; write words that are separated by blanks",
          request.container);
  require(request.container.empty() || request.container.find_first_not_of(" \t\n") != std::string::npos,
          ErrorKind::usage, "--container is blank, expected words such as \"apptainer exec IMAGE\"");
  require_sinfo(app, request.hosts);
  require(!request.command.empty() || request.preflight_only, ErrorKind::usage,
          "launch: the command is missing; add `-- train config.yaml` after the options");
  if (request.command.empty()) request.command = {"--version"};
  if (!request.any_program) require_command(request.command);
  if (const auto code = show_help(request)) return *code;
  if (cpu) add_to_training(request, "--cpu", {"--run.device=cpu"});
  if (threads > 0) add_to_training(request, "--threads", {fmt::format("--launch.threads={}", threads)});
  for (const std::string& variable : request.variables) {
    if (!request.any_program && variable.starts_with("OMP_NUM_THREADS=")) {
      log::warning(
          "launch: --env OMP_NUM_THREADS has no effect: trireme gives each rank its share of the cores; set "
          "--launch.threads N after the command instead");
    }
  }
  for (const std::string& variable : request.variables) {
    require(variable.find('=') != std::string::npos && variable.front() != '=', ErrorKind::usage,
            "--env {}: expected NAME=VALUE", variable);
  }
  if (const Launcher starter = detect_launcher(); is_rank(starter)) {
    return become_rank(std::move(request), file, starter);
  }
  if (!file.empty()) {
    const std::string note = apply_launch_file(file, request);
    if (!note.empty()) log::info("launch: {}", note);
  }
  complete_remote_options(app, request.remote);
  request.starter.mpi = mpi::usable();
  request.starter.in_slurm_job = environment_variable("SLURM_JOB_ID") != nullptr;
  request.placement.gpus = request.gpus_per_node;
  require(
      request.any_program || request.gpus_per_node == 0 || request.placement.per_host <= request.gpus_per_node,
      ErrorKind::usage,
      "--ppn {0} starts more ranks on a host than the {1} of --gpus-per-node {2}, and each rank computes on one of its "
      "own; lower --ppn to {2}, or leave out --gpus-per-node for ranks on CPUs",
      request.placement.per_host, count_text(request.gpus_per_node, "GPU"), request.gpus_per_node);
  HostSet hosts = resolve_hosts(request.hosts, environment_variable);
  require_first_component(environment_variable, hosts.hosts);
  JobFacts job = describe_job(request);
  if (job.on_cpus && request.gpus_per_node > 0)
    log::warning("launch: --gpus-per-node {}: no rank uses a GPU, because run.device is cpu", request.gpus_per_node);
  return launch_job(std::move(request), std::move(hosts), std::move(job));
}

int run_remote_shell_command(CommandLine line) {
  Flags app(std::move(line), "trireme remote-shell", "Called by mpirun instead of ssh; started by `trireme launch`.");
  RemoteOptions options;
  std::string ports;
  std::vector<std::string> words;
  app.takes_program(words);
  add_remote_flags(app, options);
  app.add("--daemon-mark", options.daemon_mark);
  app.add("--ports", ports);
  if (const auto code = app.parse()) return *code;
  complete_remote_options(app, options);
  options.ports = read_ports_word(ports);
  return run_remote_shell(options, words);
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature of every command
int run_node_agent(CommandLine) {
  serve_node(std::cin, std::cout);
  return 0;
}

}  // namespace trireme
