// trireme launch: starts ranks on many hosts through mpirun or srun, and looks after them. Also the two far ends of
// it, remote-shell (what mpirun calls in place of ssh) and node-agent.

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/run_status.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/host_flags.h"
#include "cluster/health/run.h"
#include "cluster/launch/node_agent.h"
#include "cluster/launch/preflight.h"
#include "cluster/launch/supervise.h"
#include "cluster/subprocess.h"
#include "config/load.h"
#include "version_stamp.h"

namespace trireme {
namespace {

using namespace launch;

struct LaunchRequest {
  HostRequest hosts;
  PlacementRequest placement;
  StarterRequest starter;
  SshOptions ssh;
  std::vector<std::string> variables;  ///< NAME=VALUE
  std::string interface, health_config;
  int port = 0, max_restarts = 0;
  double stop_seconds = 120;
  bool dry_run = false, preflight_only = false, skip_preflight = false, drop_bad_hosts = false, any_program = false,
       requeue = false;
  std::vector<std::string> command;
};

/// What the launched command says about itself: `train` names its run folder and its data.
struct JobFacts {
  std::string run_folder = ".";
  bool has_status = false;  ///< the command writes run_folder/status.json
  bool inherit_binding = false;
  std::vector<std::string> files;  ///< must be the same on every host
};

/// mpirun's single-dash spellings in our own; the words behind "--" are the command.
std::vector<std::string> translate_intel(std::vector<std::string>& words, std::vector<std::string>& command) {
  std::vector<std::string> own;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto next = [&] {
      require(i + 1 < words.size(), ErrorKind::usage, "launch: {} needs a value", word);
      return words[++i];
    };
    if (word == "--") {
      command.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
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
    } else if (word == "-genv") {  // NAME VALUE or NAME=VALUE
      const std::string name = next();
      own.insert(own.end(), {"--env", name.find('=') == std::string::npos ? name + "=" + next() : name});
    } else {
      own.push_back(word);
    }
  }
  return own;
}

std::string own_path() { return std::filesystem::read_symlink("/proc/self/exe"); }

JobFacts describe_job(const LaunchRequest& request) {
  JobFacts job;
  if (request.any_program || request.command[0] != "train") return job;
  const ConfigWords words = split_words({request.command.begin() + 1, request.command.end()});
  const LoadedConfig loaded = load_config(words.files, words.flags, words.dialect);
  job.run_folder = loaded.config.run.dir;
  job.has_status = true;
  job.inherit_binding = loaded.config.launch.bind == "inherit";
  for (const std::string& file : words.files) job.files.push_back(std::filesystem::absolute(file));
  const std::filesystem::path data = std::filesystem::absolute(loaded.config.data.dir);
  for (const std::string& file : {loaded.config.data.train, loaded.config.data.validation}) {
    if (!file.empty()) job.files.push_back(data / file);
  }
  return job;
}

/// A folder of our own for the hostfile and the remote shell, gone with the object.
class PrivateFolder {
 public:
  PrivateFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "trireme-launch-XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, ErrorKind::io, "cannot make a folder {}", name);
    path_ = name;
  }
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;
  std::string file(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

std::string new_launch_id() {
  std::random_device device;
  return hex64((uint64_t{device()} << 32) | device());
}

class Launch {
 public:
  Launch(LaunchRequest request, HostSet hosts)
      : request_(std::move(request)),
        hosts_(std::move(hosts.hosts)),
        job_(describe_job(request_)),
        id_(new_launch_id()) {
    starter_ = find_starter(request_.starter);
    log::info("launch: {}; starting through {} ({}), because {}", hosts.source, starter_.path, starter_.version,
              starter_.why);
    for (const Host& host : hosts.skipped) log::info("launch: skipped {}: {}", host.name, host.state);
    placement_ = place(hosts_, request_.placement);
  }

  int run() {
    if (request_.dry_run) return print_plan();
    if (!request_.skip_preflight) preflight();
    if (request_.preflight_only) return 0;
    for (int attempt = 0;; ++attempt) {
      const auto before = status_stamp();
      const AttemptEnd end = run_attempt(prepare(attempt), starter_.kind, placement_, request_.stop_seconds);
      const int code = final_code(end, before);
      if (code != 0) sweep_hosts();
      const bool again = !end.stop_requested && may_restart(code) && attempt < request_.max_restarts;
      tell_end(end, code, again ? attempt + 1 : 0);
      if (!again) return code == 75 && request_.requeue ? requeue() : code;
      if (request_.drop_bad_hosts) preflight();
    }
  }

 private:
  std::vector<std::string> host_names() const {
    std::vector<std::string> names;
    for (const Placement& entry : placement_) names.push_back(entry.host);
    return names;
  }

  StartRequest start_request(int attempt) const {
    StartRequest start;
    start.placement = placement_;
    if (!request_.any_program) start.command = {own_path()};
    start.command.insert(start.command.end(), request_.command.begin(), request_.command.end());
    for (const std::string& variable : request_.variables) {
      const size_t equals = variable.find('=');
      start.variables.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
    }
    start.variables.emplace_back(kLaunchIdVariable, id_);
    // The run folder's owner: a requeued Slurm job is the same job.
    const char* slurm_job = environment_variable("SLURM_JOB_ID");
    const char* requeued = environment_variable("SLURM_RESTART_CNT");
    const int base = slurm_job != nullptr && requeued != nullptr ? std::atoi(requeued) * 1000 : 0;
    start.variables.emplace_back("TRIREME_JOB_ID", slurm_job != nullptr ? slurm_job : id_);
    start.variables.emplace_back("TRIREME_ATTEMPT", std::to_string(base + attempt));
    start.hostfile = folder_.file("hosts");
    start.agent = agent();
    start.agent_script = folder_.file("remote-shell");
    start.network = starter_.kind == StarterKind::hydra ? interface_ : network_;
    start.tcp_only = !infiniband_;
    start.inherit_binding = job_.inherit_binding;
    start.as_root = geteuid() == 0;
    return start;
  }

  std::vector<std::string> agent() const {
    return {own_path(),
            "remote-shell",
            "--host-key",
            request_.ssh.host_key,
            "--connect-timeout",
            std::to_string(request_.ssh.connect_seconds),
            "--"};
  }
  std::string agent_script() const { return fmt::format("#!/bin/sh\nexec {} \"$@\"\n", shell_join(agent())); }

  StartCommand prepare(int attempt) const {
    StartCommand command = start_command(starter_, start_request(attempt));
    write_text(folder_.file("hosts"), command.hostfile_text);
    write_text(folder_.file("remote-shell"), agent_script());
    std::filesystem::permissions(folder_.file("remote-shell"), std::filesystem::perms::owner_all);
    return command;
  }

  int print_plan() const {
    const StartCommand command = start_command(starter_, start_request(0));
    fmt::print("# {} processes on {} hosts\n", total_processes(placement_), placement_.size());
    if (!command.hostfile_text.empty()) {
      fmt::print("cat > {} <<'EOF'\n{}EOF\n", folder_.file("hosts"), command.hostfile_text);
    }
    if (starter_.kind == StarterKind::hydra) {
      fmt::print("cat > {0} <<'EOF'\n{1}EOF\nchmod 700 {0}\n", folder_.file("remote-shell"), agent_script());
    }
    for (const auto& [name, value] : command.environment) fmt::print("export {}={}\n", name, shell_quote(value));
    fmt::print("{}\n", shell_join(command.words));
    return 0;
  }

  void preflight() {
    for (;;) {
      NodeSessions sessions(host_names(), own_path(), request_.ssh);
      PreflightResult result =
          run_preflight({placement_, job_.run_folder, job_.files, request_.interface, request_.port}, sessions);
      check_health(sessions, result);
      if (result.problems.empty()) {
        for (const std::string& note : result.notes) log::info("preflight: {}", note);
        network_ = result.network;
        interface_ = result.interface;
        infiniband_ = result.infiniband;
        if (placement_.size() > 1) {
          log::info("preflight: {} hosts agree; network {}, {}", placement_.size(), network_,
                    infiniband_ ? "InfiniBand on every host" : "TCP");
        }
        return;
      }
      for (const Problem& problem : result.problems) log::error("preflight: {}", to_text(problem));
      if (!request_.drop_bad_hosts || !drop_hosts(result.problems)) {
        fail(ErrorKind::config, "launch: {} problem(s) on {} hosts; nothing was started", result.problems.size(),
             placement_.size());
      }
    }
  }

  void check_health(NodeSessions& sessions, PreflightResult& result) const {
    if (request_.health_config.empty()) return;
    const std::string text = read_text(request_.health_config, size_t{16} << 20);
    const size_t known = sessions.problems().size();
    const auto answers =
        sessions.ask_all({{"do", "health"}, {"config", text}, {"name", request_.health_config}, {"all", true}}, 120);
    result.problems.insert(result.problems.end(), sessions.problems().begin() + static_cast<std::ptrdiff_t>(known),
                           sessions.problems().end());
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].is_null()) continue;
      const health::Report report = health::report_from_json(answers[i], sessions.hosts()[i]);
      for (const health::Result* failure : report.failures()) {
        result.problems.push_back({sessions.hosts()[i], "health check failed: " + failure->outcome.text, ""});
      }
    }
  }

  /// Whether hosts with a problem of their own could be left out; places the ranks on the others.
  bool drop_hosts(const std::vector<Problem>& problems) {
    const size_t before = hosts_.size();
    std::erase_if(hosts_, [&](const Host& host) {
      return std::ranges::any_of(problems, [&](const Problem& problem) { return problem.host == host.name; });
    });
    if (hosts_.empty() || hosts_.size() == before) return false;
    log::warning("launch: going on without {} of {} hosts", before - hosts_.size(), before);
    placement_ = place(hosts_, request_.placement);
    return true;
  }

  /// Tells an old status.json from one that this attempt wrote.
  std::pair<std::filesystem::file_time_type, uintmax_t> status_stamp() const {
    std::error_code absent;
    const std::string path = job_.run_folder + "/status.json";
    const auto time = std::filesystem::last_write_time(path, absent);
    return absent ? std::pair<std::filesystem::file_time_type, uintmax_t>()
                  : std::pair{time, std::filesystem::file_size(path, absent)};
  }

  /// The job's own word counts where it has one: mpirun may say 0 for a killed job.
  int final_code(const AttemptEnd& end, const std::pair<std::filesystem::file_time_type, uintmax_t>& before) {
    status_.reset();
    if (!job_.has_status || status_stamp() == before) return end.code;
    try {
      status_ = read_status(job_.run_folder);
    } catch (const Error& e) {
      log::warning("launch: {}", e.what());
      return end.code;
    }
    if (status_->state == "running") return end.code != 0 ? end.code : 1;  // it did not get to say how it ended
    return status_->code;
  }

  void sweep_hosts() {
    const size_t asked = placement_.size();
    NodeSessions sessions(host_names(), own_path(), request_.ssh);
    const auto answers = sessions.ask_all({{"do", "sweep"}, {"id", id_}}, 20);
    for (size_t i = 0; i < asked; ++i) {
      const int killed = answers[i].is_null() ? 0 : answers[i].at("killed").get<int>();
      if (killed > 0) log::warning("launch: ended {} process(es) left on {}", killed, sessions.hosts()[i]);
    }
    for (const Problem& problem : sessions.problems()) {
      log::warning("launch: whether processes are left cannot be seen: {}", to_text(problem));
    }
  }

  /// Slurm runs the job again from its start; the run goes on from its snapshot.
  static int requeue() {
    const char* job = environment_variable("SLURM_JOB_ID");
    require(job != nullptr, ErrorKind::config, "--requeue: this is not a Slurm job");
    ProcessRequest request;
    request.arguments = {"scontrol", "requeue", job};
    const ProcessResult result = run_process(request);
    require(result.exit_code == 0, ErrorKind::io, "scontrol requeue {} {}: {}", job, describe_end(result), result.err);
    log::info("launch: job {} is queued again", job);
    return 75;
  }

  void tell_end(const AttemptEnd& end, int code, int next_attempt) const {
    if (code == 0) return;
    if (code == 75) {
      log::info("launch: the job stopped as asked (code 75); start it again to go on");
      return;
    }
    if (!end.first_error.empty()) log::error("launch: first failure: {}", end.first_error);
    const std::string where =
        status_ && status_->state != "running"
            ? fmt::format(" (status.json: {}, rank {} on {})", status_->state, status_->rank, status_->host)
            : "";
    if (next_attempt > 0) {
      log::warning("launch: the job ended with code {}{}; restart {} of {}", code, where, next_attempt,
                   request_.max_restarts);
    } else {
      log::error("launch: the job ended with code {}{}", code, where);
    }
  }

  LaunchRequest request_;
  std::vector<Host> hosts_;
  JobFacts job_;
  std::string id_;
  Starter starter_;
  std::vector<Placement> placement_;
  std::string network_, interface_;
  bool infiniband_ = false;
  std::optional<RunStatus> status_;
  PrivateFolder folder_;
};

}  // namespace

int run_launch(std::vector<std::string> arguments) {
  Flags app("trireme launch", "Starts ranks on many hosts through mpirun or srun, and looks after them.");
  app.set_footer("Behind -- stands a command of trireme: `trireme launch -f hosts -- train config.yaml`.");
  LaunchRequest request;
  const std::vector<std::string> own = translate_intel(arguments, request.command);
  add_host_flags(app, request.hosts);
  app.add("--np", request.placement.processes, "ranks in all (also -n, -np); default what the hosts hold").positive();
  app.add("--ppn", request.placement.per_host, "ranks per host (also -ppn)").positive();
  app.add("--env", request.variables, "NAME=VALUE for every rank, repeatable (also -genv)").one_value();
  app.add("--starter", request.starter.wanted, "auto, openmpi, hydra or srun").show_default();
  app.add("--mpirun", request.starter.program, "this mpirun");
  app.add("--interface", request.interface, "network of the ranks: eth0 or 10.0.0.0/24; default picked (also -iface)");
  app.add("--port", request.port, "a port that preflight asks to be free on every host").in_range(1, 65535);
  app.add("--host-key", request.ssh.host_key, "yes: unknown host keys are refused; accept-new: learned").show_default();
  app.add("--connect-timeout", request.ssh.connect_seconds, "seconds for an ssh connection").show_default();
  app.add("--max-restarts", request.max_restarts, "start again after a lost peer (76) or a death by signal")
      .not_negative();
  app.add_switch("--drop-bad-hosts", request.drop_bad_hosts,
                 "leave out hosts that fail preflight, at the start and before a restart");
  app.add("--health", request.health_config, "NHC configuration file that every host must pass first");
  app.add("--stop-timeout", request.stop_seconds, "seconds that a stop may take before the job is ended")
      .show_default();
  app.add_switch("--requeue", request.requeue, "in a Slurm job: queue it again when it stopped with code 75");
  app.add_switch("--dry-run", request.dry_run, "print the exact commands and start nothing");
  app.add_switch("--preflight-only", request.preflight_only, "look at the hosts and start nothing");
  app.add_switch("--skip-preflight", request.skip_preflight, "start without looking at the hosts");
  app.add_switch("--program", request.any_program, "COMMAND is any program, not a command of trireme");
  if (const auto code = app.parse(own)) return *code;
  require(!request.command.empty() || request.preflight_only, ErrorKind::usage,
          "launch: nothing to start; write `-- train config.yaml` behind the options");
  if (request.command.empty()) request.command = {"--version"};
  for (const std::string& variable : request.variables) {
    require(variable.find('=') != std::string::npos && variable.front() != '=', ErrorKind::usage,
            "--env {}: expected NAME=VALUE", variable);
  }
  ssh_command(request.ssh);  // refuses a wrong --host-key before anything happens
  request.starter.build_mpi = TRIREME_MPI_CHOICE;
  request.starter.in_slurm_job = environment_variable("SLURM_JOB_ID") != nullptr;
  HostSet hosts = resolve_hosts(request.hosts, environment_variable);
  return Launch(std::move(request), std::move(hosts)).run();
}

int run_remote_shell_command(std::vector<std::string> arguments) {
  Flags app("trireme remote-shell", "What mpirun calls in place of ssh; started by `trireme launch`.");
  SshOptions options;
  std::vector<std::string> words;
  const auto dashes = std::ranges::find(arguments, "--");
  if (dashes != arguments.end()) words.assign(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  app.add("--host-key", options.host_key);
  app.add("--connect-timeout", options.connect_seconds);
  if (const auto code = app.parse(std::move(arguments))) return *code;
  return run_remote_shell(options, words);
}

int run_node_agent(std::vector<std::string>) {
  serve_node(std::cin, std::cout);
  return 0;
}

}  // namespace trireme
