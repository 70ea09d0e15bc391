#include "cluster/launch/launch_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/time.h"
#include "cluster/health/run.h"
#include "cluster/hostlist.h"
#include "cluster/launch/host_alias.h"
#include "cluster/launch/start_probe.h"
#include "cluster/subprocess.h"

namespace trireme::launch {

HostPool::HostPool(std::vector<Host> hosts, int spares, PlacementRequest request)
    : hosts_(std::move(hosts)), request_(request) {
  require(static_cast<size_t>(spares) < hosts_.size(), ErrorKind::config,
          "--spares {}: found {}, but at least one must run the job", spares, count_text(hosts_.size(), "host"));
  spares_.assign(hosts_.end() - spares, hosts_.end());
  hosts_.resize(hosts_.size() - static_cast<size_t>(spares));
  placement_ = place(hosts_, request_);
}

std::vector<std::string> HostPool::names() const {
  std::vector<std::string> names;
  for (const Placement& entry : placement_) names.push_back(entry.host);
  return names;
}

bool HostPool::offer_ranks(std::span<const int> counts) {
  if (!trireme::offer_ranks(hosts_, counts, request_)) return false;
  placement_ = place(hosts_, request_);
  return true;
}

bool HostPool::leave_out(const std::vector<std::string>& failed, bool may_shrink) {
  const auto has_failed = [&](const Host& host) { return std::ranges::find(failed, host.name) != failed.end(); };
  std::vector<Host> kept = hosts_, waiting = spares_;
  std::erase_if(waiting, has_failed);
  const size_t lost = std::erase_if(kept, has_failed);
  if (lost == 0 || (waiting.size() < lost && !may_shrink)) return false;
  const size_t fresh = std::min(lost, waiting.size());
  if (kept.empty() && fresh == 0) return false;
  for (size_t i = 0; i < fresh; ++i) log::warning("launch: using spare host {}", waiting[i].name);
  kept.insert(kept.end(), waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(fresh));
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(fresh));
  if (lost > fresh)
    log::warning("launch: continuing without {} of {}", lost - fresh, count_text(hosts_.size(), "host"));
  hosts_ = std::move(kept);
  spares_ = std::move(waiting);
  placement_ = place(hosts_, request_);
  return true;
}

std::string to_text(const std::vector<Placement>& placement) {
  std::vector<std::pair<int, std::vector<std::string>>> groups;
  for (const Placement& entry : placement) {
    if (groups.empty() || groups.back().first != entry.processes) groups.push_back({entry.processes, {}});
    groups.back().second.push_back(entry.host);
  }
  std::string text;
  for (const auto& [processes, names] : groups) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", compress_hostlist(names), processes,
                        names.size() == 1 ? "" : " each");
  }
  return text;
}

namespace {

constexpr double kFirstPause = 1, kLongestPause = 60, kLookAgain = 5;  // seconds before a restart
constexpr double kSecondsToLook = 20;

}  // namespace

LaunchHosts::LaunchHosts(std::vector<Host> hosts, const LaunchRequest& request, const JobFacts& job,
                         const Starter& starter, std::string id)
    : request_(request),
      job_(job),
      starter_(starter),
      id_(std::move(id)),
      remote_(request.remote),
      pool_(std::move(hosts), request.spares, request.placement),
      network_(request.interface) {
  check_own_name();
  if (network_.find('/') == std::string::npos) interface_ = network_;
}

/// mpirun lists its own host's name beside those of the hostfile, and cannot be given another.
void LaunchHosts::check_own_name() const {
  if (starter_.kind != StarterKind::open_mpi || placement().size() < 2) return;
  std::array<char, 256> own{};
  gethostname(own.data(), own.size() - 1);
  require(name_for_starter(starter_.kind, own.data()) == own.data(), ErrorKind::config,
          "launch: the name of this host is \"{}\", but Open MPI accepts only letters, digits, dots and hyphens in a "
          "name; rename it: `hostnamectl set-hostname NAME`",
          own.data());
}

void LaunchHosts::preflight() {
  for (;;) {
    const std::vector<Problem> problems = look();
    if (problems.empty()) break;
    log_problems(problems);
    if (!leave_out(problems, false)) {
      fail(ErrorKind::config, "launch: {} on {}; nothing was started", count_text(problems.size(), "problem"),
           count_text(placement().size(), "host"));
    }
  }
  remote_ = remote_at_once();  // from now on an agent that does not answer is lost
}

bool LaunchHosts::ready_again(int attempt, const StopSignals& signals) {
  double pause = std::min(kLongestPause, kFirstPause * std::pow(2.0, attempt));
  const Clock::time_point start = Clock::now();
  for (;; pause = kLookAgain) {
    if (signals.wait(pause) != 0) {
      log::info("launch: asked to stop before the restart; no rank is running");
      return false;
    }
    if (request_.skip_preflight) return true;
    const std::vector<Problem> problems = look();
    if (problems.empty()) return true;
    if (leave_out(problems, request_.drop_failed_host)) continue;
    if (seconds_since(start) > 60 * request_.wait_minutes) {
      log_problems(problems);
      log::error("launch: the hosts did not come back within {:g} min (--wait-for-hosts)", request_.wait_minutes);
      return false;
    }
    for (const std::string& line : group(problems)) {
      log::warning("launch: waiting up to {:g} min until this is solved: {}", request_.wait_minutes, line);
    }
  }
}

/// Checks every host once; without problems uses its network.
std::vector<Problem> LaunchHosts::look() {
  NodeSessions sessions(pool_.names(), program_path(), remote_);
  PreflightResult result = run_preflight(
      {placement(), std::filesystem::absolute(job_.run_folder),
       job_.has_status || (job_.shares_run_folder && job_.shares_run_folder(total_processes(placement()))), job_.files,
       job_.named, cache_variables(), request_.interface, request_.port, job_.run_bytes, job_.rank_memory,
       request_.gpus_per_node > 0 ? GpuWish::required : job_.gpus, request_.gpus_per_node, pool_.offers_ranks()},
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
  gpus_ = result.gpus;
  if (!request_.any_program && pool_.offer_ranks(gpus_ ? result.gpu_ranks : result.sockets)) {
    log::info("preflight: {}, one per {}; change this with --ppn", count_text(total_processes(placement()), "rank"),
              gpus_ ? "GPU" : "socket");
  }
  if (job_.layout_warning) {
    std::vector<int> host_of;
    for (size_t host = 0; host < placement().size(); ++host)
      host_of.insert(host_of.end(), static_cast<size_t>(placement()[host].processes), static_cast<int>(host));
    if (const std::string slow = job_.layout_warning(HostMap(host_of)); !slow.empty())
      log::warning("preflight: {}", slow);
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
void LaunchHosts::check_starter(NodeSessions& sessions, PreflightResult& result) const {
  const std::string daemon = daemon_of(starter_);
  if (daemon.empty() || placement().size() < 2) return;
  const size_t known = sessions.problems().size();
  const auto answers = sessions.ask_all({{"do", "starter"}, {"program", starter_.path}, {"daemon", daemon}}, 30);
  const auto fresh = sessions.problems().begin() + static_cast<std::ptrdiff_t>(known);
  result.problems.insert(result.problems.end(), fresh, sessions.problems().end());
  const auto found = judge_starters(starter_, sessions.hosts(), answers, probe_starter(starter_.path, daemon));
  result.problems.insert(result.problems.end(), found.begin(), found.end());
}

void LaunchHosts::check_health(NodeSessions& sessions, PreflightResult& result) const {
  if (request_.health_config.empty()) return;
  const std::string text = health::read_nhc_config(request_.health_config);
  health::parse_nhc_config(text);  // an error of the file is reported once
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
    if (report.failures().empty() && (!report.not_checked().empty() || report.checked() == 0)) {
      std::string line = health::one_line_per_node(report);
      line.pop_back();  // its line end
      log::warning("preflight: health of {}", line);
    }
  }
}

/// Whether the hosts that have problems could be removed. may_drop_cut: also without --drop-bad-hosts if all problems
/// are connections between two hosts.
bool LaunchHosts::leave_out(const std::vector<Problem>& problems, bool may_drop_cut) {
  const bool may_drop =
      request_.drop_bad_hosts ||
      (may_drop_cut && std::ranges::none_of(problems, [](const Problem& problem) { return problem.peer.empty(); }));
  return (may_drop || pool_.spares() > 0) && pool_.leave_out(hosts_to_drop(problems, is_this_host), may_drop);
}

std::string LaunchHosts::start_problems() {
  NodeSessions sessions(pool_.names(), program_path(), remote_at_once());
  std::vector<Json> requests;
  std::string here;
  for (const std::string& host : sessions.hosts()) {
    if (is_this_host(host)) here = host;
    requests.push_back({{"do", "start"}, {"id", id_}, {"daemon", daemon_mark(host)}});
  }
  const std::vector<Json> answers = sessions.ask(requests, kSecondsToLook);
  const auto problems = hosts_not_started(starter_.kind, sessions.hosts(), answers, sessions.problems(), here);
  return fmt::format("{}", fmt::join(group(problems), "\n"));
}

void LaunchHosts::sweep(bool daemons) {
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
    if (killed > 0) log::warning("launch: killed {} left on {}", count_text(killed, "process"), host);
    log_memory_kills(host, memory_kills_from_json(answers[i].at("memory_kills")));
  }
  for (const Problem& problem : sessions.problems()) {
    log::warning("launch: cannot check whether processes are left: {}", to_text(problem));
  }
}

void LaunchHosts::log_memory_kills(const std::string& host, const MemoryKills& now) {
  const auto before = memory_kills_.find(host);
  const std::string reported = before == memory_kills_.end() ? "" : describe_memory_kills(before->second, now);
  if (!reported.empty()) log::error("launch: {}: {}", host, reported);
  memory_kills_[host] = now;
}

std::string LaunchHosts::daemon_mark(const std::string& host) const { return id_ + "/" + host_key(host); }

RemoteOptions LaunchHosts::remote_at_once() const {
  RemoteOptions options = remote_;
  options.wait_seconds = 0;
  return options;
}

void LaunchHosts::log_problems(const std::vector<Problem>& problems) {
  for (const std::string& line : group(problems)) log::error("preflight: {}", line);
}

/// Variables that set the ranks' Hugging Face cache and whether they may use the hub: --env before this process' own.
std::vector<std::string> LaunchHosts::cache_variables() const {
  std::vector<std::string> variables = request_.variables;
  for (const char* name : {"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"}) {
    if (const char* value = environment_variable(name)) variables.push_back(fmt::format("{}={}", name, value));
  }
  return variables;
}

void LaunchHosts::drop_host_of(int rank, int other) {
  const std::string host = host_of_rank(placement(), rank);
  if (other < 0) {
    if (pool_.leave_out({host}, request_.drop_failed_host))
      log::warning("launch: restarting without {}, whose rank {} was lost", host, rank);
    return;
  }
  // Either may be at fault: this host stays, as nothing can be started without it.
  const std::string other_host = host_of_rank(placement(), other);
  const std::string dropped = is_this_host(host) ? other_host : host;
  if (pool_.leave_out({dropped}, request_.drop_failed_host))
    log::warning("launch: restarting without {}: {} and {} cannot reach each other", dropped, host, other_host);
}

}  // namespace trireme::launch
