#include "cluster/launch/job.h"

#include <fmt/core.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "checkpoint/run_folder/run_status.h"
#include "cluster/launch/host_alias.h"
#include "cluster/launch/job_view.h"
#include "cluster/launch/launch_hosts.h"
#include "cluster/launch/output.h"
#include "cluster/launch/supervise.h"
#include "cluster/subprocess.h"
#include "comm/launcher.h"
#include "hub/settings.h"

namespace trireme {
namespace {

using namespace launch;

std::string random_hex() {
  std::random_device device;
  return hex64((uint64_t{device()} << 32) | device());
}

constexpr int kStopped = 75;

class Launch {
 public:
  Launch(LaunchRequest request, HostSet hosts, JobFacts job)
      : starter_(find_starter(request.starter)),
        job_facts_(std::move(job)),
        request_(completed(std::move(request), hosts)),
        id_(random_hex()),
        secret_(random_hex() + random_hex()),
        hosts_(std::move(hosts.hosts), request_, job_facts_, starter_, id_),
        job_(job_facts_, secret_) {
    log::info("launch: {}; starting through {} ({}), because {}", hosts.source, starter_.path, starter_.version,
              starter_.why);
    for (const Host& host : hosts.skipped) log::info("launch: skipped {}: {}", host.name, host.state);
  }

  int run() {
    if (!request_.dry_run && !request_.preflight_only) const RankLogs folder_is_made(request_.log_folder);
    const bool looks = request_.dry_run ? request_.preflight_only : !request_.skip_preflight;
    if (looks) hosts_.preflight();
    if (request_.dry_run) return print_plan();
    if (request_.preflight_only) {
      log::info("preflight: nothing was started (--preflight-only)");
      return 0;
    }
    const StopSignals signals;
    if (job_facts_.has_status) status_server_.emplace(job_facts_.run_folder, secret_, stays_here());
    const int code = run_attempts(signals);
    if (status_server_) status_server_->end(code, job_.status());
    return request_.requeue ? requeue(code, signals) : code;
  }

 private:
  int run_attempts(const StopSignals& signals) {
    int cause = 0;  // the job's first exit code; more useful than mpirun's for a restart that never began
    for (int attempt = 0;; ++attempt) {
      log::info("launch: {}: {}{}", count_text(total_processes(placement()), "rank"), to_text(placement()),
                hosts_.spares() > 0 ? fmt::format("; {}", count_text(hosts_.spares(), "spare host")) : "");
      job_.begin_attempt();
      show_activity(fmt::format("attempt {}: {}: {}", attempt + 1, count_text(total_processes(placement()), "rank"),
                                to_text(placement())));
      const AttemptEnd end = run_attempt(
          prepare(attempt), starter_.kind, placement(),
          {request_.stop_seconds, request_.log_folder, request_.start_seconds, request_.times, request_.any_program},
          job_channel(), signals);
      const bool began = !job_facts_.has_status || job_.began();
      int code = job_.final_code(end, starter_.path);
      if (!began && code != 0 && cause != 0) code = cause;
      cause = code;
      if (code != 0 && code != kStopped) hosts_.sweep(!end.start_problems.empty() || !end.refusal.empty());
      repeats_ = may_restart(code, end);
      const bool again = !end.stop_requested && repeats_ && attempt < request_.max_restarts;
      tell_end(end, code, again ? attempt + 1 : 0);
      if (!again) return code;
      show_activity(
          fmt::format("no rank is running: restart {} of {} waits for its hosts", attempt + 1, request_.max_restarts));
      if (request_.drop_failed_host || hosts_.spares() > 0) drop_failed_host(end);
      if (!hosts_.ready_again(attempt, signals)) return code;
    }
  }

  const std::vector<Placement>& placement() const { return hosts_.placement(); }

  bool stays_here() const {
    return environment_variable("SLURM_JOB_ID") == nullptr &&
           std::ranges::all_of(placement(), [](const Placement& entry) { return is_this_host(entry.host); });
  }
  void show_activity(std::string text) {
    if (status_server_) status_server_->set_activity(std::move(text));
  }

  /// Whether the stop is final (by `trireme stop` or by the job's status): then the job is not requeued.
  bool stays_stopped() const { return (status_server_ && status_server_->caller()) || job_.stopped_for_good(); }

  JobChannel job_channel() {
    JobChannel job = {.ask_to_stop = [this](const StopRequest& request) { return job_.ask_to_stop(request); },
                      .start_problems = [this] { return hosts_.start_problems(); },
                      .over = [this] { return job_.seconds_to_end(); }};
    if (!status_server_) return job;
    job.caller = [this] { return status_server_->caller(); };
    job.said = [this](std::string_view text) { status_server_->said(text); };
    return job;
  }

  /// NCCL's variables of this process reach all ranks, and settings for TCP where only that can be used.
  void add_nccl_variables(StartRequest& start) const {
    const auto add = [&](const std::string& name, const std::string& value) {
      const bool given = std::ranges::any_of(start.variables, [&](const auto& own) { return own.first == name; });
      if (!given) start.variables.emplace_back(name, value);
    };
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string assignment = *entry;
      if (assignment.starts_with("NCCL_"))
        add(assignment.substr(0, assignment.find('=')), assignment.substr(assignment.find('=') + 1));
    }
    if (!hosts_.uses_gpus() || placement().size() < 2) return;
    if (hosts_.tcp_only()) add("NCCL_IB_DISABLE", "1");
    if (!hosts_.interface().empty()) add("NCCL_SOCKET_IFNAME", "=" + hosts_.interface());
  }

  StartRequest start_request(int attempt) const {
    StartRequest start;
    start.placement = placement();
    start.command = rank_command(request_);
    // Whatever the configuration says about a first start, a restart resumes.
    if (attempt > 0 && job_facts_.has_status)
      start.command.insert(start.command.end(), {"--checkpoint.resume", "auto"});
    for (const std::string& variable : request_.variables) {
      const size_t equals = variable.find('=');
      start.variables.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
    }
    add_nccl_variables(start);
    start.variables.emplace_back(kLaunchIdVariable, id_);
    // The run folder's owner: a requeued Slurm job is the same job.
    const char* slurm_job = environment_variable("SLURM_JOB_ID");
    const char* requeued = environment_variable("SLURM_RESTART_COUNT");
    const int base = slurm_job != nullptr && requeued != nullptr ? std::atoi(requeued) * 1000 : 0;
    start.variables.emplace_back(kJobIdVariable, slurm_job != nullptr ? slurm_job : id_);
    start.variables.emplace_back(kAttemptVariable, std::to_string(base + attempt));
    if (status_server_) start.variables.emplace_back(kLaunchPlaceVariable, status_server_->place());
    start.secrets = {{kControlSecretVariable, secret_}};
    for (const char* name : hub::passed_variables()) {
      const char* value = environment_variable(name);
      const bool given = std::ranges::any_of(start.variables, [&](const auto& own) { return own.first == name; });
      if (value != nullptr && !given)
        start.secrets.emplace_back(name, value);  // a proxy's address may contain a password
    }
    start.hostfile = folder_.file("hosts");
    for (const Placement& entry : placement()) {
      const bool taken = name_for_starter(starter_.kind, entry.host) == entry.host;
      // PRRTE recognizes this host only by exactly the same name, and uses ssh otherwise.
      const bool other_letters = starter_.kind == StarterKind::prrte && entry.host != host_name() &&
                                 strcasecmp(entry.host.c_str(), host_name().c_str()) == 0;
      if ((!taken || other_letters) && is_this_host(entry.host)) start.this_host = entry.host;
    }
    start.agent = agent();
    start.agent_script = folder_.file("remote-shell");
    start.ipv6 = hosts_.network().find(':') != std::string::npos;
    start.network = starter_.kind == StarterKind::hydra || start.ipv6 ? hosts_.interface() : hosts_.network();
    start.tcp_only = hosts_.tcp_only();
    start.inherit_binding = job_facts_.inherit_binding;
    start.as_root = geteuid() == 0;
    return start;
  }

  std::vector<std::string> agent() const {
    RemoteOptions options = hosts_.remote();
    options.daemon_mark = id_;
    return remote_shell_command(program_path(), options);
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
    const auto processes = total_processes(placement());
    fmt::print("# {} on {}\n", count_text(processes, "process"), count_text(placement().size(), "host"));
    if (!hosts_.looked_at() && placement().size() > 1) {
      fmt::print("{}",
                 request_.skip_preflight
                     ? "# With --skip-preflight the hosts are not checked: no common network is added.\n"
                     : "# A start checks the hosts first and adds their common network; --preflight-only shows it.\n");
    }
    if (!command.hostfile_text.empty() || starter_.kind == StarterKind::hydra) {
      fmt::print("mkdir -p -m 700 {}\n", folder_.path());
    }
    if (!command.hostfile_text.empty()) {
      fmt::print("cat > {} <<'EOF'\n{}EOF\n", folder_.file("hosts"), command.hostfile_text);
    }
    if (starter_.kind == StarterKind::hydra) {
      fmt::print("cat > {0} <<'EOF'\n{1}EOF\nchmod 700 {0}\n", folder_.file("remote-shell"), agent_script());
    }
    for (const auto& [name, value] : command.environment) {
      fmt::print("export {}={}\n", name, name == kControlSecretVariable ? "..." : shell_quote(value));
    }
    fmt::print("{}\n", shell_join(command.words));
    return 0;
  }

  void drop_failed_host(const AttemptEnd& end) {
    const auto [rank, other] = job_.lost_ranks(end);
    if (rank < 0) {
      log::warning("launch: no host can be blamed for the end of the job; restarting on the same hosts");
      return;
    }
    hosts_.drop_host_of(rank, other);
  }

  /// Slurm runs the job again from its start; the run resumes from its snapshot.
  int requeue(int code, const StopSignals& signals) const {
    SlurmRestarts restarts(job_facts_.stop_folder);
    if (code == kStopped && stays_stopped()) return code;
    if (code != kStopped && !(repeats_ && restarts.may_follow_loss(request_.max_requeues))) return code;
    restarts.requeue(code, signals);
    return code;
  }

  void tell_end(const AttemptEnd& end, int code, int next_attempt) const {
    if (code == 0) return;
    if (code == kStopped) {
      log::info("launch: the job stopped as requested (code 75); start it again to resume");
      return;
    }
    if (end.stop_requested && end.stop_forced) {
      // Messages of ranks while mpirun kills them one after the other are not the cause.
      log::error(
          "launch: the job was killed before it had stopped (code {}); the progress after its last snapshot is lost",
          code);
      return;
    }
    if (!end.refusal.empty()) log::error("launch: {} refuses its hostfile: {}", starter_.path, end.refusal);
    for (std::istringstream lines(end.start_problems); lines;) {
      if (std::string line; std::getline(lines, line)) log::error("launch: no rank has started: {}", line);
    }
    fmt::print(stderr, "{}", end.verdict);
    const bool explained = !end.verdict.empty() || !end.first_error.empty() || !end.refusal.empty();
    if (!explained) fmt::print(stderr, "{}", end.traces);
    if (!end.first_error.empty()) log::error("launch: first failure: {}", end.first_error);
    if (const std::string absent = describe_absent(placement(), end.arrived); !absent.empty())
      log::error("launch: {}", absent);
    const std::optional<RunStatus>& status = job_.status();
    std::string where;
    if (status && status->state != RunState::running) {
      where = fmt::format(" (status.json: {}{})", name_of(status->state),
                          status->rank < 0 ? "" : fmt::format(", rank {} on {}", status->rank, status->host));
    }
    if (next_attempt > 0) {
      log::warning("launch: the job ended with code {}{}; restart {} of {}", code, where, next_attempt,
                   request_.max_restarts);
    } else {
      log::error("launch: the job ended with code {}{}", code, where);
    }
  }

  /// The request, completed by what follows from hosts, starter and job.
  LaunchRequest completed(LaunchRequest request, const HostSet& hosts) const {
    require(!request.remote.agents || starter_.kind != StarterKind::srun, ErrorKind::usage,
            "--agents: srun starts the ranks and reaches the nodes of this Slurm job without agents; remove --agents, "
            "or choose mpirun with --starter");
    request.remote.through_srun = starter_.kind == StarterKind::srun;
    request.remote.ports = remote_ports(hosts.hosts);
    if (request.start_seconds < 0) request.start_seconds = job_facts_.start_seconds;
    return request;
  }

  Starter starter_;
  JobFacts job_facts_;
  LaunchRequest request_;
  std::string id_;
  std::string secret_;  ///< of the job's control channel
  LaunchHosts hosts_;
  JobView job_;
  PrivateFolder folder_{"launch"};  ///< for the hostfile and the remote shell
  std::optional<LaunchStatusServer> status_server_;
  bool repeats_ = false;  ///< what the last attempt ended with may be repeated
};

}  // namespace

std::vector<std::string> rank_command(const LaunchRequest& request) {
  std::vector<std::string> words;
  std::istringstream prefix(request.container);
  for (std::string word; prefix >> word;) words.push_back(word);
  if (!request.any_program) words.push_back(words.empty() ? program_path() : "trireme");
  words.insert(words.end(), request.command.begin(), request.command.end());
  if (!request.any_program && request.command.at(0) == "train") {
    for (const std::string& setting : request.defaults) words.insert(words.end(), {"--default", setting});
  }
  return words;
}

int launch_job(LaunchRequest request, HostSet hosts, JobFacts job) {
  return Launch(std::move(request), std::move(hosts), std::move(job)).run();
}

}  // namespace trireme
