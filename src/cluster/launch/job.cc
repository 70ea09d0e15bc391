#include "cluster/launch/job.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host.h"
#include "base/launch_variables.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/run_folder/run_control.h"
#include "checkpoint/run_folder/run_status.h"
#include "cluster/health/run.h"
#include "cluster/launch/host_alias.h"
#include "cluster/launch/host_pool.h"
#include "cluster/launch/node_agent.h"
#include "cluster/launch/output.h"
#include "cluster/launch/preflight.h"
#include "cluster/launch/slurm_restarts.h"
#include "cluster/launch/start_look.h"
#include "cluster/launch/starter_probe.h"
#include "cluster/launch/status_server.h"
#include "cluster/launch/supervise.h"
#include "cluster/private_folder.h"
#include "cluster/subprocess.h"
#include "comm/control/control.h"
#include "hub/settings.h"

namespace trireme {
namespace {

using namespace launch;

std::string random_hex() {
  std::random_device device;
  return hex64((uint64_t{device()} << 32) | device());
}

constexpr double kSecondsAfterLoss = 3, kSecondsAfterEnd = 15;         // for the starter to end
constexpr double kFirstPause = 1, kLongestPause = 60, kLookAgain = 5;  // seconds before a restart
constexpr int kStopped = 75, kCannotStart = 2;
constexpr double kSecondsToLook = 20;
constexpr double kJoinSeconds = 2;  // while we wait no output is passed on

using StatusStamp = std::pair<std::filesystem::file_time_type, uintmax_t>;

class Launch {
 public:
  Launch(LaunchRequest request, HostSet hosts, JobFacts job)
      : request_(std::move(request)),
        ports_(remote_ports(hosts.hosts)),
        pool_(std::move(hosts.hosts), request_.spares, request_.placement),
        job_(std::move(job)),
        id_(random_hex()),
        secret_(random_hex() + random_hex()) {
    starter_ = find_starter(request_.starter);
    log::info("launch: {}; starting through {} ({}), because {}", hosts.source, starter_.path, starter_.version,
              starter_.why);
    for (const Host& host : hosts.skipped) log::info("launch: skipped {}: {}", host.name, host.state);
    require(!request_.remote.agents || starter_.kind != StarterKind::srun, ErrorKind::usage,
            "--agents: srun starts the ranks and reaches the nodes of this Slurm job; leave --agents out, or choose "
            "mpirun with --starter");
    request_.remote.through_srun = starter_.kind == StarterKind::srun;
    request_.remote.ports = ports_;
    if (request_.start_seconds < 0) request_.start_seconds = job_.start_seconds;
    check_own_name();
    network_ = request_.interface;
    if (network_.find('/') == std::string::npos) interface_ = network_;
  }

  int run() {
    if (!request_.dry_run && !request_.preflight_only) const RankLogs folder_is_made(request_.log_folder);
    const bool looks = request_.dry_run ? request_.preflight_only : !request_.skip_preflight;
    if (looks) preflight();
    if (request_.dry_run) return print_plan();
    if (request_.preflight_only) {
      log::info("preflight: nothing was started (--preflight-only)");
      return 0;
    }
    const StopSignals signals;
    if (job_.has_status) status_server_.emplace(job_.run_folder, secret_, stays_here());
    const int code = run_attempts(signals);
    if (status_server_) status_server_->end(code, status_);
    return request_.requeue ? requeue(code, signals) : code;
  }

 private:
  int run_attempts(const StopSignals& signals) {
    int cause = 0;  // how the job itself first ended; what mpirun says of a restart that never began says less
    for (int attempt = 0;; ++attempt) {
      log::info("launch: {}: {}{}", count_text(total_processes(placement()), "rank"), to_text(placement()),
                pool_.spares() > 0 ? fmt::format("; {}", count_text(pool_.spares(), "spare host")) : "");
      const auto before = status_stamp();
      say_what_runs(fmt::format("attempt {}: {}: {}", attempt + 1, count_text(total_processes(placement()), "rank"),
                                to_text(placement())));
      const AttemptEnd end = run_attempt(
          prepare(attempt), starter_.kind, placement(),
          {request_.stop_seconds, request_.log_folder, request_.start_seconds, request_.times, request_.any_program},
          job_channel(before), signals);
      const bool began = !job_.has_status || status_stamp() != before;
      int code = final_code(end, before);
      if (!began && code != 0 && cause != 0) code = cause;
      cause = code;
      if (code != 0 && code != kStopped) sweep_hosts(!end.not_begun.empty() || !end.refusal.empty());
      const bool again = !end.stop_requested && may_restart(code) && attempt < request_.max_restarts;
      tell_end(end, code, again ? attempt + 1 : 0);
      if (!again) return code;
      say_what_runs(
          fmt::format("no rank runs: restart {} of {} waits for its hosts", attempt + 1, request_.max_restarts));
      if (request_.drop_failed_host || pool_.spares() > 0) drop_failed_host(end);
      if (!ready_again(attempt, signals)) return code;
    }
  }

  const std::vector<Placement>& placement() const { return pool_.placement(); }

  bool stays_here() const {
    return environment_variable("SLURM_JOB_ID") == nullptr &&
           std::ranges::all_of(placement(), [](const Placement& entry) { return is_this_host(entry.host); });
  }
  void say_what_runs(std::string text) {
    if (status_server_) status_server_->is_doing(std::move(text));
  }
  /// By `trireme stop`: then nobody queues the job again.
  bool stays_stopped() const {
    if (status_server_ && status_server_->caller()) return true;
    try {
      return !job_.stop_folder.empty() && !read_status(job_.stop_folder).requeue;
    } catch (const Error&) {
      return false;  // no word of the job
    }
  }

  JobChannel job_channel(const StatusStamp& before) {
    JobChannel job = {
        .ask_to_stop = [this, before](const StopRequest& request) { return ask_to_stop(before, request); },
        .not_begun = [this] { return not_begun(); },
        .over = [this, before] { return seconds_to_end(before); }};
    if (!status_server_) return job;
    job.caller = [this] { return status_server_->caller(); };
    job.said = [this](std::string_view text) { status_server_->said(text); };
    return job;
  }

  /// Waits longer from restart to restart, then until every host passes preflight. False: a stop was asked for, or
  /// the hosts did not come back in time; said.
  bool ready_again(int attempt, const StopSignals& signals) {
    double pause = std::min(kLongestPause, kFirstPause * std::pow(2.0, attempt));
    const Clock::time_point start = Clock::now();
    for (;; pause = kLookAgain) {
      if (signals.wait(pause) != 0) {
        log::info("launch: asked to stop before the restart; nothing runs");
        return false;
      }
      if (request_.skip_preflight) return true;
      const std::vector<Problem> problems = look();
      if (problems.empty()) return true;
      if (leave_out(problems)) continue;
      if (seconds_since(start) > 60 * request_.wait_minutes) {
        tell(problems);
        log::error("launch: the hosts did not come back within {:g} min (--wait-for-hosts)", request_.wait_minutes);
        return false;
      }
      for (const std::string& line : group(problems)) {
        log::warning("launch: waiting up to {:g} min for it: {}", request_.wait_minutes, line);
      }
    }
  }

  /// mpirun has its own host's name beside those of the hostfile, and no other can be given to it.
  void check_own_name() const {
    if (starter_.kind != StarterKind::open_mpi || placement().size() < 2) return;
    std::array<char, 256> own{};
    gethostname(own.data(), own.size() - 1);
    require(name_for_starter(starter_.kind, own.data()) == own.data(), ErrorKind::config,
            "launch: this host calls itself \"{}\", and Open MPI takes letters, digits, dots and hyphens alone in a "
            "name; give it another one: `hostnamectl set-hostname NAME`",
            own.data());
  }

  /// What keeps ranks from beginning, a line for each cause; empty: they have begun.
  std::string not_begun() {
    NodeSessions sessions(pool_.names(), program_path(), remote_at_once());
    std::vector<Json> requests;
    std::string here;
    for (const std::string& host : sessions.hosts()) {
      if (is_this_host(host)) here = host;
      requests.push_back({{"do", "start"}, {"id", id_}, {"daemon", daemon_mark(host)}});
    }
    const std::vector<Json> answers = sessions.ask(requests, kSecondsToLook);
    const auto problems = hosts_not_begun(starter_.kind, sessions.hosts(), answers, sessions.problems(), here);
    return fmt::format("{}", fmt::join(group(problems), "\n"));
  }

  std::string daemon_mark(const std::string& host) const { return id_ + "/" + host_key(host); }

  StartRequest start_request(int attempt) const {
    StartRequest start;
    start.placement = placement();
    start.command = rank_command(request_, job_);
    // Whatever the configuration says about a first start: a restart goes on.
    if (attempt > 0 && job_.has_status) start.command.insert(start.command.end(), {"--checkpoint.resume", "auto"});
    for (const std::string& variable : request_.variables) {
      const size_t equals = variable.find('=');
      start.variables.emplace_back(variable.substr(0, equals), variable.substr(equals + 1));
    }
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
      if (value != nullptr && !given) start.secrets.emplace_back(name, value);  // a proxy's address may have a password
    }
    start.hostfile = folder_.file("hosts");
    for (const Placement& entry : placement()) {
      const bool taken = name_for_starter(starter_.kind, entry.host) == entry.host;
      // PRRTE knows this host by its name in the same letters only, and calls it by ssh otherwise.
      const bool other_letters = starter_.kind == StarterKind::prrte && entry.host != host_name() &&
                                 strcasecmp(entry.host.c_str(), host_name().c_str()) == 0;
      if ((!taken || other_letters) && is_this_host(entry.host)) start.this_host = entry.host;
    }
    start.agent = agent();
    start.agent_script = folder_.file("remote-shell");
    start.ipv6 = network_.find(':') != std::string::npos;
    start.network = starter_.kind == StarterKind::hydra || start.ipv6 ? interface_ : network_;
    start.tcp_only = placement().size() == 1 || (looked_ && !infiniband_);
    start.inherit_binding = job_.inherit_binding;
    start.as_root = geteuid() == 0;
    return start;
  }

  std::vector<std::string> agent() const {
    RemoteOptions options = request_.remote;
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
    if (!looked_ && placement().size() > 1) {
      fmt::print("{}", request_.skip_preflight
                           ? "# With --skip-preflight nobody looks at the hosts: no network that they share is added.\n"
                           : "# A start looks at the hosts first and adds the network that they share; "
                             "--preflight-only does so here.\n");
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

  /// Until every host passes, or none can be left out any more.
  void preflight() {
    for (;;) {
      const std::vector<Problem> problems = look();
      if (problems.empty()) break;
      tell(problems);
      if (!leave_out(problems)) {
        fail(ErrorKind::config, "launch: {} on {}; nothing was started", count_text(problems.size(), "problem"),
             count_text(placement().size(), "host"));
      }
    }
    request_.remote = remote_at_once();  // from here on an agent that does not answer is gone
  }

  RemoteOptions remote_at_once() const {
    RemoteOptions options = request_.remote;
    options.wait_seconds = 0;
    return options;
  }

  static void tell(const std::vector<Problem>& problems) {
    for (const std::string& line : group(problems)) log::error("preflight: {}", line);
  }

  /// Whether the hosts that have a problem of their own could be left out.
  bool leave_out(const std::vector<Problem>& problems) {
    std::vector<std::string> failed;
    for (const Problem& problem : problems) failed.push_back(problem.host);
    return (request_.drop_bad_hosts || pool_.spares() > 0) && pool_.leave_out(failed, request_.drop_bad_hosts);
  }

  /// What says to ranks where the Hugging Face cache is, and whether the hub may be asked: --env before this process'.
  std::vector<std::string> cache_variables() const {
    std::vector<std::string> variables = request_.variables;
    for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"}) {
      if (const char* value = environment_variable(name)) variables.push_back(fmt::format("{}={}", name, value));
    }
    return variables;
  }

  /// One look at every host; without problems its network is taken.
  std::vector<Problem> look() {
    NodeSessions sessions(pool_.names(), program_path(), request_.remote);
    PreflightResult result =
        run_preflight({placement(), std::filesystem::absolute(job_.run_folder), job_.has_status, job_.files, job_.named,
                       cache_variables(), request_.interface, request_.port, job_.run_bytes},
                      sessions);
    check_starter(sessions, result);
    check_health(sessions, result);
    for (const std::string& note : result.notes) log::info("preflight: {}", note);
    if (!result.problems.empty()) return std::move(result.problems);
    network_ = result.network;
    interface_ = result.interface;
    infiniband_ = result.infiniband;
    looked_ = true;
    memory_kills_ = std::move(result.memory_kills);
    if (!request_.any_program && pool_.offer_sockets(result.sockets)) {
      log::info("preflight: {}, one per socket; --ppn chooses", count_text(total_processes(placement()), "rank"));
    }
    if (placement().size() > 1) {
      log::info("preflight: {} hosts agree; network {}, {}", placement().size(), network_,
                infiniband_ ? "InfiniBand on every host" : "TCP");
    } else {
      log::info("preflight: {} can take the job: {}", placement()[0].host,
                count_text(total_processes(placement()), "rank"));
    }
    return {};
  }

  /// Whether mpirun can start its daemon on every other host.
  void check_starter(NodeSessions& sessions, PreflightResult& result) const {
    const std::string daemon = daemon_of(starter_);
    if (daemon.empty() || placement().size() < 2) return;
    const size_t known = sessions.problems().size();
    const auto answers = sessions.ask_all({{"do", "starter"}, {"program", starter_.path}, {"daemon", daemon}}, 30);
    const auto fresh = sessions.problems().begin() + static_cast<std::ptrdiff_t>(known);
    result.problems.insert(result.problems.end(), fresh, sessions.problems().end());
    const auto found = judge_starters(starter_, sessions.hosts(), answers, probe_starter(starter_.path, daemon));
    result.problems.insert(result.problems.end(), found.begin(), found.end());
  }

  void check_health(NodeSessions& sessions, PreflightResult& result) const {
    if (request_.health_config.empty()) return;
    const std::string text = read_text(request_.health_config, size_t{16} << 20);
    const size_t known = sessions.problems().size();
    const auto answers = sessions.ask_all({{"do", "health"}, {"config", text}, {"all", true}}, 120);
    result.problems.insert(result.problems.end(), sessions.problems().begin() + static_cast<std::ptrdiff_t>(known),
                           sessions.problems().end());
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].is_null()) continue;
      const health::Report report = health::report_from_json(answers[i], sessions.hosts()[i]);
      for (const health::Result* failure : report.failures()) {
        result.problems.push_back({sessions.hosts()[i], "health check failed: " + failure->outcome.text, ""});
      }
      if (!report.not_checked().empty() || report.checked() == 0) {
        result.notes.push_back(fmt::format("health of {}", health::one_line_per_node(report)));
        result.notes.back().pop_back();  // its line end
      }
    }
  }

  /// Tells an old status.json from one that this attempt wrote.
  StatusStamp status_stamp() const {
    std::error_code absent;
    const std::string path = job_.run_folder + "/status.json";
    const auto time = std::filesystem::last_write_time(path, absent);
    return absent ? StatusStamp() : StatusStamp{time, std::filesystem::file_size(path, absent)};
  }

  /// The job's own word counts where it has one: mpirun may say 0 for a killed job.
  int final_code(const AttemptEnd& end, const StatusStamp& before) {
    status_.reset();
    // Open MPI's own number of this fault looks like a death by signal.
    const int said = end.not_started || !end.refusal.empty() ? kCannotStart
                     : !end.not_begun.empty()                ? exit_code(ErrorKind::peer)
                                                             : end.code;
    if (!job_.has_status) return said;
    if (status_stamp() == before) {
      if (said != 0) return said;
      log::error("launch: {} returned 0, but no rank began to train: {}/status.json was not written", starter_.path,
                 job_.run_folder);
      return 1;
    }
    try {
      status_ = read_status(job_.run_folder);
    } catch (const Error& e) {
      log::warning("launch: {}", e.what());
      return end.code;
    }
    if (status_->state == RunState::running || status_->state == RunState::killed) {  // ended before it could write why
      if (end.lost_rank && !end.stop_requested) return exit_code(ErrorKind::peer);
      return end.code != 0 ? end.code : 1;
    }
    return status_->code;
  }

  /// Through the job's control channel, whose place a running job tells in its status.json.
  bool ask_to_stop(const StatusStamp& before, const StopRequest& request) const {
    if (!job_.has_status || status_stamp() == before) return false;
    try {
      const RunStatus status = read_status(job_.run_folder);
      std::vector<std::string> addresses;
      std::istringstream list(status.control);
      for (std::string address; std::getline(list, address, ',');) addresses.push_back(address);
      if (status.state != RunState::running || addresses.empty()) return false;
      ControlClient client(addresses, secret_, ControlClient::kLauncher, "launch", nullptr, {}, kJoinSeconds);
      client.request_stop(request);
      log::info("launch: the job's control channel has the request");
      return true;
    } catch (const Error& e) {
      log::warning("launch: not through the control channel: {}", e.what());
      return false;
    }
  }

  double seconds_to_end(const StatusStamp& before) const {
    if (!job_.has_status || status_stamp() == before) return -1;
    try {
      const RunState state = read_status(job_.run_folder).state;
      return state == RunState::running ? -1 : state == RunState::peer_lost ? kSecondsAfterLoss : kSecondsAfterEnd;
    } catch (const Error&) {
      return -1;  // it is being replaced
    }
  }

  /// The rank that was lost; below 0: nobody told. A host that is cut off takes the others for lost and may write so
  /// into status.json; what reached us comes from the side that we are on.
  int lost_rank(const AttemptEnd& end) const {
    if (end.lost_rank) return *end.lost_rank;
    return status_ && status_->state == RunState::peer_lost ? status_->rank : -1;
  }

  void drop_failed_host(const AttemptEnd& end) {
    const int rank = lost_rank(end);
    if (rank < 0) {
      log::warning("launch: the job did not tell which host failed; restarting on the same hosts");
      return;
    }
    const std::string failed = host_of_rank(placement(), rank);
    if (pool_.leave_out({failed}, request_.drop_failed_host)) {
      log::warning("launch: restarting without {}, whose rank {} was lost", failed, rank);
    }
  }

  /// daemons: those of mpirun, too, which it may not know of.
  void sweep_hosts(bool daemons) {
    const size_t asked = placement().size();
    NodeSessions sessions(pool_.names(), program_path(), remote_at_once());
    std::vector<Json> requests;
    for (const std::string& host : sessions.hosts()) {
      requests.push_back({{"do", "sweep"}, {"id", id_}});
      if (daemons) requests.back()["daemon"] = daemon_mark(host);
    }
    const auto answers = sessions.ask(requests, 20);
    for (size_t i = 0; i < asked; ++i) {
      if (answers[i].is_null()) continue;
      const std::string& host = sessions.hosts()[i];
      const int killed = answers[i].at("killed").get<int>();
      if (killed > 0) log::warning("launch: ended {} left on {}", count_text(killed, "process"), host);
      tell_memory_kills(host, memory_kills_from_json(answers[i].at("memory_kills")));
    }
    for (const Problem& problem : sessions.problems()) {
      log::warning("launch: whether processes are left cannot be seen: {}", to_text(problem));
    }
  }

  void tell_memory_kills(const std::string& host, const MemoryKills& now) {
    const auto before = memory_kills_.find(host);
    const std::string told = before == memory_kills_.end() ? "" : describe_memory_kills(before->second, now);
    if (!told.empty()) log::error("launch: {}: {}", host, told);
    memory_kills_[host] = now;
  }

  /// Slurm runs the job again from its start; the run goes on from its snapshot.
  int requeue(int code, const StopSignals& signals) const {
    SlurmRestarts restarts(job_.stop_folder);
    if (code == kStopped && stays_stopped()) return code;
    if (code != kStopped && !(may_restart(code) && restarts.may_follow_loss(request_.max_requeues))) return code;
    restarts.requeue(code, signals);
    return code;
  }

  void tell_end(const AttemptEnd& end, int code, int next_attempt) const {
    if (code == 0) return;
    if (code == kStopped) {
      log::info("launch: the job stopped as asked (code 75); start it again to go on");
      return;
    }
    if (end.stop_requested && end.stop_forced) {
      // What ranks say when mpirun ends them one after the other is not the cause of anything.
      log::error(
          "launch: the job was ended before it had stopped (code {}); what it did since its last snapshot is lost",
          code);
      return;
    }
    if (!end.refusal.empty()) log::error("launch: {} refuses its hostfile: {}", starter_.path, end.refusal);
    for (std::istringstream lines(end.not_begun); lines;) {
      if (std::string line; std::getline(lines, line)) log::error("launch: no rank has begun: {}", line);
    }
    fmt::print(stderr, "{}", end.verdict);
    const bool explained = !end.verdict.empty() || !end.first_error.empty() || !end.refusal.empty();
    if (!explained) fmt::print(stderr, "{}", end.traces);
    if (!end.first_error.empty()) log::error("launch: first failure: {}", end.first_error);
    if (const std::string absent = describe_absent(placement(), end.arrived); !absent.empty())
      log::error("launch: {}", absent);
    const std::string where =
        status_ && status_->state != RunState::running
            ? fmt::format(" (status.json: {}, rank {} on {})", name_of(status_->state), status_->rank, status_->host)
            : "";
    if (next_attempt > 0) {
      log::warning("launch: the job ended with code {}{}; restart {} of {}", code, where, next_attempt,
                   request_.max_restarts);
    } else {
      log::error("launch: the job ended with code {}{}", code, where);
    }
  }

  LaunchRequest request_;
  std::map<std::string, int> ports_;
  HostPool pool_;
  JobFacts job_;
  std::string id_;
  std::string secret_;  ///< of the job's control channel
  Starter starter_;
  std::string network_, interface_;
  bool looked_ = false, infiniband_ = false;
  std::map<std::string, MemoryKills> memory_kills_;  ///< by host, before the attempt; none where nobody looked
  std::optional<RunStatus> status_;
  PrivateFolder folder_;  ///< for the hostfile and the remote shell
  std::optional<LaunchStatusServer> status_server_;
};

}  // namespace

std::vector<std::string> rank_command(const LaunchRequest& request, const JobFacts& job) {
  std::vector<std::string> words;
  if (!request.any_program) words = {program_path()};
  words.insert(words.end(), request.command.begin(), request.command.end());
  words.insert(words.end(), job.flags.begin(), job.flags.end());
  return words;
}

int launch_job(LaunchRequest request, HostSet hosts, JobFacts job) {
  return Launch(std::move(request), std::move(hosts), std::move(job)).run();
}

}  // namespace trireme
