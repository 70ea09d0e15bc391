#include "cluster/launch/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "base/count.h"
#include "base/folder_token.h"
#include "base/text.h"

namespace trireme::launch {
namespace {

constexpr double kMostSkewSeconds = 2;
// Open MPI's and MPICH's shared-memory transports need about 32 MiB per process on a host.
constexpr int64_t kShmPerProcess = int64_t{32} << 20;

double gib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// The value must be the same on all hosts; names the hosts that differ from the most common value.
void require_same(const std::vector<Placement>& hosts, const std::vector<std::string>& values, const std::string& what,
                  const std::string& fix, std::vector<Problem>& problems) {
  std::map<std::string, int> counts;
  for (const std::string& value : values) ++counts[value];
  const auto common = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != common->first) {
      problems.push_back({hosts[i].host,
                          fmt::format("{} differs: {} there, {} on {}", what, values[i], common->first,
                                      count_text(common->second, "other host")),
                          fix});
    }
  }
}

/// Names the hosts that cannot read a file, and those whose file differs from the others'.
void require_same_file(const std::vector<Placement>& hosts, const std::vector<std::string>& values,
                       const std::string& file, std::vector<Problem>& problems) {
  constexpr const char* kFix = "copy it, or put it on a shared file system";
  const auto is_print = [](const std::string& value) {
    return !value.empty() && std::isdigit(static_cast<unsigned char>(value[0])) != 0;
  };
  std::vector<Placement> readers;
  std::vector<std::string> prints;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!is_print(values[i])) continue;
    readers.push_back(hosts[i]);
    prints.push_back(values[i]);
  }
  if (readers.empty())
    return problems.push_back({hosts[0].host, fmt::format("no host can read {}: {}", file, values[0]), kFix});
  for (size_t i = 0; i < values.size(); ++i) {
    if (is_print(values[i])) continue;
    problems.push_back(
        {hosts[i].host,
         fmt::format("that host cannot read {}, {} can: {}", file, count_text(readers.size(), "other host"), values[i]),
         kFix});
  }
  require_same(readers, prints, file, kFix, problems);
}

int64_t free_memory(const NodeFacts& facts) {
  return facts.memory_limit > 0 ? std::min(facts.memory, facts.memory_limit) : facts.memory;
}

/// Whether the ranks' plan fits into the memory that is free; nothing is judged on hosts with different numbers of
/// ranks.
void judge_memory(const PreflightRequest& request, const std::vector<NodeFacts>& facts, PreflightResult& result) {
  const std::vector<Placement>& placement = request.placement;
  const bool even =
      std::ranges::all_of(placement, [&](const Placement& entry) { return entry.processes == placement[0].processes; });
  if (!request.rank_memory || !even) return;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const NodeFacts& fact : facts) least = std::min(least, free_memory(fact));
  const int each = placement[0].processes;
  const auto limit = static_cast<uint64_t>(std::max<int64_t>(least, 0) / each);
  const std::optional<RankMemory> needed =
      request.rank_memory(each * static_cast<int>(placement.size()), static_cast<int>(placement.size()), limit, false);
  if (!needed) return;
  if (!needed->refusal.empty()) return result.problems.push_back({placement[0].host, needed->refusal, ""});
  result.notes.push_back(
      fmt::format("{} planned for each rank, {} are free", human_bytes(needed->bytes), human_bytes(limit)));
  for (size_t i = 0; i < facts.size(); ++i) {
    const int64_t there = free_memory(facts[i]);
    if (there >= each * static_cast<int64_t>(needed->bytes)) continue;
    result.problems.push_back({placement[i].host,
                               fmt::format("the run does not fit: {} with {} each need {}, but {} of memory are free",
                                           count_text(each, "rank"), human_bytes(needed->bytes),
                                           human_bytes(needed->bytes * static_cast<uint64_t>(each)),
                                           human_bytes(static_cast<uint64_t>(std::max<int64_t>(there, 0)))),
                               needed->fits.empty() ? needed->advice : "this fits: " + needed->fits});
  }
}

/// Whether the ranks' plan fits into what is free on their GPUs.
void judge_gpu_memory(const PreflightRequest& request, const std::vector<Placement>& placement,
                      const std::vector<HostGpus>& hosts, PreflightResult& result) {
  const bool even =
      std::ranges::all_of(placement, [&](const Placement& entry) { return entry.processes == placement[0].processes; });
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (const HostGpus& host : hosts) {
    for (const NodeGpu& gpu : host.gpus.gpus) least = std::min(least, gpu.free_bytes);
  }
  if (!request.rank_memory || !even || least == std::numeric_limits<uint64_t>::max()) return;
  constexpr double kUsable = 0.95;  // CUDA and NCCL take the rest
  const auto limit = static_cast<uint64_t>(kUsable * static_cast<double>(least));
  const std::optional<RankMemory> needed =
      request.rank_memory(total_processes(placement), static_cast<int>(placement.size()), limit, true);
  if (!needed) return;
  if (!needed->refusal.empty()) return result.problems.push_back({placement[0].host, needed->refusal, ""});
  if (needed->bytes <= limit) {
    result.notes.push_back(
        fmt::format("{} planned for each GPU, {} are free", human_bytes(needed->bytes), human_bytes(limit)));
    return;
  }
  for (const Placement& entry : placement) {
    result.problems.push_back({entry.host,
                               fmt::format("the run does not fit: each GPU needs {}, but {} are free",
                                           human_bytes(needed->bytes), human_bytes(limit)),
                               needed->fits.empty() ? needed->advice : "this fits: " + needed->fits});
  }
}

constexpr std::string_view kVisibleGpus = "CUDA_VISIBLE_DEVICES=";

/// Asks the hosts for their GPUs, if the job may use some. reached: those that have answered, by their sessions.
void look_at_gpus(const PreflightRequest& reached, const std::vector<size_t>& session, NodeSessions& sessions,
                  PreflightResult& result) {
  if (reached.gpus == GpuWish::none) return;
  std::vector<Json> requests(sessions.hosts().size());
  for (const size_t i : session) requests[i] = {{"do", "gpus"}};
  const std::vector<Json> answers = sessions.ask(requests, 60);
  std::vector<HostGpus> hosts;
  for (const size_t i : session) {
    if (answers[i].is_null()) return;  // a problem of that host
    hosts.push_back(host_gpus_from_json(answers[i]));
    for (const std::string& variable : reached.variables) {
      if (variable.starts_with(kVisibleGpus)) hosts.back().visible = variable.substr(kVisibleGpus.size());
    }
  }
  GpuVerdict verdict = judge_gpus(reached.placement, hosts, reached.gpus, reached.gpus_per_node);
  std::ranges::move(verdict.problems, std::back_inserter(result.problems));
  std::ranges::move(verdict.notes, std::back_inserter(result.notes));
  result.gpus = verdict.used;
  result.gpu_ranks.assign(sessions.hosts().size(), 0);
  std::vector<Placement> offered = reached.placement;
  for (size_t i = 0; i < verdict.ranks.size(); ++i) {
    result.gpu_ranks[session[i]] = verdict.ranks[i];
    if (reached.offers_ranks && offered[i].processes == 1) offered[i].processes = std::max(1, verdict.ranks[i]);
  }
  if (result.gpus && result.problems.empty()) judge_gpu_memory(reached, offered, hosts, result);
}

void judge_resources(const Placement& entry, const NodeFacts& facts, int64_t disk_bytes, PreflightResult& result) {
  const double cores = facts.cpu_quota > 0 ? std::min<double>(facts.cpus, facts.cpu_quota) : facts.cpus;
  if (entry.processes > cores) {
    result.problems.push_back(
        {entry.host,
         fmt::format("{} for {:.1f} processors{}", count_text(entry.processes, "process"), cores,
                     facts.cpu_quota > 0 && facts.cpu_quota < facts.cpus ? " (its cgroup's quota)" : ""),
         "lower --ppn or the slots of the host"});
  }
  const int64_t memory = free_memory(facts);
  if (memory < (int64_t{1} << 28)) {
    result.problems.push_back(
        {entry.host, fmt::format("only {:.2f} GiB of memory are free", gib(memory)), "end the processes that use it"});
  }
  if (facts.disk_free >= 0 && facts.disk_free < disk_bytes) {
    result.problems.push_back(
        {entry.host,
         fmt::format("only {:.2f} GiB are free for the run folder: {}, but the run needs {} for a snapshot",
                     gib(facts.disk_free), human_bytes(static_cast<uint64_t>(facts.disk_free)),
                     human_bytes(static_cast<uint64_t>(disk_bytes))),
         "free disk space or set another run.dir"});
  }
  if (entry.processes > 1 && facts.shm_free < kShmPerProcess * entry.processes) {
    result.notes.push_back(
        fmt::format("{}: /dev/shm has only {} MiB free for {}; if MPI fails, enlarge it or pass --env "
                    "OMPI_MCA_btl=self,tcp (slower within the host)",
                    entry.host, facts.shm_free >> 20, count_text(entry.processes, "process")));
  }
}

/// Models and data by name: what is missing from a host's cache is fetched there, if allowed.
void judge_cache(const Placement& entry, const NodeFacts& facts, PreflightResult& result) {
  for (const std::string& name : facts.unfetched) {
    if (!facts.hub_offline) {
      result.notes.push_back(
          fmt::format("{}: {} is not in its cache {}; its first rank fetches it", entry.host, name, facts.hub_cache));
      continue;
    }
    result.problems.push_back(
        {entry.host, fmt::format("{} is not in its cache {}, and HF_HUB_OFFLINE is set", name, facts.hub_cache),
         fmt::format("run `trireme fetch {}{}` on a host with a connection and copy the folder there", name,
                     name.starts_with("glue/") ? " --dataset" : "")});
  }
}

std::multiset<std::string> addresses(const NodeFacts& facts) {
  std::multiset<std::string> all;
  for (const Interface& interface : facts.interfaces) all.insert(interface.address);
  return all;
}

/// Two entries with the same host name: one machine listed twice, or two machines such as copies of one image.
Problem same_name(const std::string& host, const NodeFacts& facts, const std::string& other, const NodeFacts& others) {
  if (addresses(facts) == addresses(others)) {
    return {host, fmt::format("it is the same machine as {} (both have the name {})", other, facts.host),
            "list each machine once, with the sum of its slots"};
  }
  return {host, fmt::format("its name is {}, the same as that of {}, which is another machine", facts.host, other),
          "give each a different name: `hostnamectl set-hostname NAME`"};
}

void judge_names(const std::vector<Placement>& placement, const std::vector<NodeFacts>& facts,
                 PreflightResult& result) {
  std::map<std::string, size_t> seen;
  for (size_t i = 0; i < facts.size(); ++i) {
    const auto [first, fresh] = seen.emplace(facts[i].host, i);
    if (!fresh) {
      const size_t other = first->second;
      result.problems.push_back(same_name(placement[i].host, facts[i], placement[other].host, facts[other]));
    }
    const std::string& own = facts[i].own_name_address;
    if (facts.size() > 1 && (own.starts_with("127.") || own == "::1")) {
      result.notes.push_back(
          fmt::format("{}: its own name resolves to {}; MPI gets the network instead", placement[i].host, own));
    }
  }
}

bool is_container_bridge(const std::string& name) {
  for (const char* start : {"docker", "virbr", "br-", "veth", "cni", "flannel"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

void measure_clocks(NodeSessions& sessions, PreflightResult& result) {
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  };
  const double start = now();
  const std::vector<Json> answers = sessions.ask_all({{"do", "clock"}}, 10);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].is_null()) continue;
    const double trip = sessions.round_trips()[i];
    const double skew = answers[i].at("time").get<double>() - (start + trip / 2);
    if (std::abs(skew) > kMostSkewSeconds + trip) {
      // Steps, not times, decide what is newer; a wrong clock only confuses logs.
      result.notes.push_back(fmt::format("{}: its clock is {:.1f} s {}; set it with chrony or ntp", sessions.hosts()[i],
                                         std::abs(skew), skew > 0 ? "ahead" : "behind"));
    }
  }
}

/// A file that the first host leaves in the run folder must be visible on every other host.
void look_for_run_folder(const PreflightRequest& request, const std::vector<size_t>& session, NodeSessions& sessions,
                         PreflightResult& result) {
  const Json token = {{"folder", request.run_folder}, {"name", token_name()}};
  const auto ask = [&](size_t first, size_t last, const char* what, const Json& more) {
    std::vector<Json> requests(sessions.hosts().size());
    for (size_t i = first; i < last; ++i) {
      requests[session[i]] = token;
      requests[session[i]]["do"] = what;
      requests[session[i]].update(more);
    }
    return sessions.ask(requests, kTokenSeconds + 20);
  };
  const Json left = ask(0, 1, "leave-token", Json::object())[session[0]];
  if (left.is_null()) return;  // already a problem of that host
  const std::vector<Json> answers = ask(1, session.size(), "find-token", Json::object());
  ask(0, 1, "take-token", {{"made", left.at("made")}});
  for (size_t i = 1; i < session.size(); ++i) {
    const Json& answer = answers[session[i]];
    if (answer.is_null() || answer.at("found").get<bool>()) continue;
    result.problems.push_back({request.placement[i].host,
                               fmt::format("it does not see in the run folder {} what {} wrote there",
                                           request.run_folder, request.placement[0].host),
                               "put it on a file system that all hosts share and name it with --run.dir"});
  }
}

/// Every host listens, then every host connects to all others. `session`: the session of each host in facts.
void try_all_pairs(const PreflightRequest& request, const std::vector<NodeFacts>& facts,
                   const std::vector<size_t>& session, const std::vector<size_t>& chosen, NodeSessions& sessions,
                   PreflightResult& result) {
  const std::vector<Json> ports = sessions.ask_all({{"do", "listen"}, {"port", request.port}}, 10);
  const size_t hosts = facts.size();
  std::vector<Json> requests(ports.size());
  for (size_t from = 0; from < hosts; ++from) {
    Json targets = Json::array();
    for (size_t to = 0; to < hosts; ++to) {
      if (to == from || ports[session[to]].is_null()) continue;
      targets.push_back(
          {request.placement[to].host, facts[to].interfaces[chosen[to]].address, ports[session[to]].at("port")});
    }
    if (!targets.empty()) requests[session[from]] = {{"do", "connect"}, {"targets", targets}};
  }
  const std::vector<Json> answers = sessions.ask(requests, 15);
  for (size_t from = 0; from < hosts; ++from) {
    const Json& answer = answers[session[from]];
    if (answer.is_null()) continue;
    for (const Json& pair : answer.at("failed")) {
      result.problems.push_back({request.placement[from].host,
                                 fmt::format("cannot reach {} over {}: {}", pair.at(0).get<std::string>(),
                                             result.network, pair.at(1).get<std::string>()),
                                 "open the network between them, or choose another with --interface",
                                 pair.at(0).get<std::string>()});
    }
  }
}

}  // namespace

void judge_facts(const PreflightRequest& request, const std::vector<NodeFacts>& facts, PreflightResult& result) {
  std::vector<std::string> executables, features;
  for (const NodeFacts& fact : facts) {
    executables.push_back(fact.executable);
    features.push_back(fmt::format("{}", fmt::join(fact.features, " ")));
  }
  require_same(request.placement, executables, "the trireme binary",
               "copy the same build to the same path on every host", result.problems);
  for (size_t f = 0; f < request.files.size(); ++f) {
    std::vector<std::string> prints;
    for (const NodeFacts& fact : facts) prints.push_back(fact.files.at(f).second);
    require_same_file(request.placement, prints, request.files[f], result.problems);
  }
  for (size_t i = 0; i < facts.size(); ++i) judge_resources(request.placement[i], facts[i], request.disk_bytes, result);
  if (result.problems.empty()) judge_memory(request, facts, result);
  for (size_t i = 0; i < facts.size(); ++i) judge_cache(request.placement[i], facts[i], result);
  if (std::set<std::string>(features.begin(), features.end()).size() > 1) {
    for (size_t i = 0; i < facts.size(); ++i) {
      result.notes.push_back(fmt::format("{}: its CPU has {}; each host uses its own kernels",
                                         request.placement[i].host,
                                         features[i].empty() ? "none of the known extensions" : features[i]));
    }
  }
  judge_names(request.placement, facts, result);
  result.infiniband = std::ranges::all_of(facts, [](const NodeFacts& fact) { return fact.infiniband_ports > 0; });
  for (size_t i = 0; i < facts.size(); ++i) {
    for (const auto& [port, reason] : facts[i].unusable_ports) {
      result.notes.push_back(
          fmt::format("{}: InfiniBand {} is up but not used: {}", request.placement[i].host, port, reason));
    }
  }
  const bool some = std::ranges::any_of(facts, [](const NodeFacts& fact) { return fact.infiniband_ports > 0; });
  if (some && !result.infiniband) {
    for (size_t i = 0; i < facts.size(); ++i) {
      if (facts[i].infiniband_ports == 0) {
        result.notes.push_back(
            fmt::format("{}: no active InfiniBand port; the whole job uses TCP", request.placement[i].host));
      }
    }
  }
}

std::vector<size_t> pick_network(const std::string& wanted, const std::vector<NodeFacts>& facts,
                                 PreflightResult& result) {
  struct Candidate {
    std::vector<size_t> interfaces;
    std::tuple<bool, bool, int64_t> rank;  ///< not a bridge, IPv4, rate of the slowest host
  };
  std::map<std::string, Candidate> found;
  for (size_t first = 0; first < facts[0].interfaces.size(); ++first) {
    const Interface& start = facts[0].interfaces[first];
    if (!wanted.empty() && wanted != start.name && wanted != start.network) continue;
    Candidate candidate{
        {first}, {!is_container_bridge(start.name), start.network.find(':') == std::string::npos, start.megabit}};
    for (size_t host = 1; host < facts.size(); ++host) {
      const auto& own = facts[host].interfaces;
      const auto same = std::ranges::find(own, start.network, &Interface::network);
      if (same == own.end()) break;
      candidate.interfaces.push_back(static_cast<size_t>(same - own.begin()));
      std::get<2>(candidate.rank) = std::min(std::get<2>(candidate.rank), same->megabit);
    }
    if (candidate.interfaces.size() == facts.size()) found[start.network] = std::move(candidate);
  }
  const auto best = std::ranges::max_element(found, {}, [](const auto& entry) { return entry.second.rank; });
  if (best == found.end()) {
    std::string own;
    for (const NodeFacts& fact : facts) {
      own += fmt::format(" {}:", fact.host);
      for (const Interface& i : fact.interfaces) own += fmt::format(" {} {}", i.name, i.network);
    }
    result.problems.push_back({"network",
                               wanted.empty() ? "the hosts have no network in common:" + own
                                              : fmt::format("{} is not on every host:{}", wanted, own),
                               "name one with --interface NAME or --interface 10.0.0.0/24"});
    return {};
  }
  result.network = best->first;
  const auto& chosen = best->second.interfaces;
  result.interface = facts[0].interfaces[chosen[0]].name;
  for (size_t i = 1; i < facts.size(); ++i) {
    if (facts[i].interfaces[chosen[i]].name != result.interface) result.interface.clear();
  }
  return chosen;
}

PreflightResult run_preflight(const PreflightRequest& request, NodeSessions& sessions) {
  PreflightResult result;
  const std::vector<Json> answers = sessions.ask_all({{"do", "facts"},
                                                      {"folder", request.run_folder},
                                                      {"files", request.files},
                                                      {"model", request.named.model},
                                                      {"tokenizer", request.named.tokenizer},
                                                      {"glue_task", request.named.glue_task},
                                                      {"variables", request.variables}},
                                                     120);
  // Hosts without an answer are already problems; the others' answers are still useful.
  PreflightRequest reached = request;
  reached.placement.clear();
  std::vector<NodeFacts> facts;
  std::vector<size_t> session;
  result.sockets.resize(answers.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    if (answers[i].is_null()) continue;
    facts.push_back(facts_from_json(answers[i]));
    result.sockets[i] = facts.back().sockets;
    reached.placement.push_back(request.placement[i]);
    result.memory_kills[request.placement[i].host] = facts.back().memory_kills;
    session.push_back(i);
  }
  if (!facts.empty()) {
    look_at_gpus(reached, session, sessions, result);
    if (result.gpus) reached.rank_memory = {};  // the host holds copies only
    judge_facts(reached, facts, result);
  }
  measure_clocks(sessions, result);
  if (request.shares_run_folder && facts.size() > 1) look_for_run_folder(reached, session, sessions, result);
  if (facts.size() > 1) {
    const std::vector<size_t> chosen = pick_network(request.interface, facts, result);
    if (!chosen.empty()) try_all_pairs(reached, facts, session, chosen, sessions, result);
  }
  result.problems.insert(result.problems.begin(), sessions.problems().begin(), sessions.problems().end());
  return result;
}

}  // namespace trireme::launch
