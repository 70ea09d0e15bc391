#include "cluster/launch/node_gpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/host.h"

namespace trireme::launch {
namespace {

/// Devices that CUDA_VISIBLE_DEVICES lists; the first that is not there ends the list.
int listed(const std::string& visible) {
  if (visible.empty() || visible.starts_with("-1") || visible == "NoDevFiles") return 0;
  return 1 + static_cast<int>(std::ranges::count(visible.substr(0, visible.find("-1")), ',')) -
         (visible.find(",-1") == std::string::npos ? 0 : 1);
}

/// What a host must have in common with the others, and what to do where it has not.
struct SharedFact {
  std::string what, value, fix;
};

std::vector<SharedFact> shared_facts(const HostGpus& host) {
  static const std::map<std::string, std::string> kFixes = {
      {"driver", "install the same driver on every host"},
      {"number of GPUs", "leave the host out with --exclude"},
      {"first GPU", "start the job on hosts with the same GPUs"},
      {"links", "`trireme device` there shows them; `nvidia-smi nvlink --status` names a link that is down"}};
  std::vector<SharedFact> facts;
  for (const auto& [what, value] : shared_facts_of(host.gpus))
    facts.push_back({what == "links" ? "the links between GPUs" : "the " + what, value, kFixes.at(what)});
  if (!host.usable.network.empty())
    facts.push_back({"what connects GPUs", host.usable.network, "install the same NCCL on every host"});
  return facts;
}

/// Names the hosts that differ from the most common value. Some may not have the fact.
void require_shared(const std::vector<Placement>& placement, const std::vector<std::vector<SharedFact>>& all,
                    size_t which, std::vector<Problem>& problems) {
  std::map<std::string, int> counts;
  for (const auto& facts : all) {
    if (which < facts.size()) ++counts[facts[which].value];
  }
  const auto common = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  for (size_t i = 0; i < all.size(); ++i) {
    if (which >= all[i].size()) continue;
    const SharedFact& fact = all[i][which];
    if (fact.value == common->first) continue;
    problems.push_back(
        {placement[i].host,
         fmt::format("{} differ{}: {} there, {} on {}", fact.what, fact.what.ends_with("links between GPUs") ? "" : "s",
                     fact.value, common->first, count_text(common->second, "other host")),
         fact.fix});
  }
}

/// Hosts whose driver did not answer, and those with a GPU that cannot be used, have no facts to compare.
void judge_sameness(const std::vector<Placement>& placement, const std::vector<HostGpus>& hosts,
                    std::vector<Problem>& problems) {
  std::vector<Placement> known;
  std::vector<std::vector<SharedFact>> facts;
  for (size_t i = 0; i < hosts.size(); ++i) {
    const HostGpus& host = hosts[i];
    if (host.gpus.gpus.empty() || host.usable.hardware.empty() || !obstacles_of(host.gpus).empty()) continue;
    known.push_back(placement[i]);
    facts.push_back(shared_facts(host));
  }
  size_t most = 0;
  for (const auto& own : facts) most = std::max(most, own.size());
  for (size_t which = 0; which < most; ++which) require_shared(known, facts, which, problems);
}

void judge_host(const Placement& entry, const HostGpus& host, int gpus_per_node, bool connected, GpuVerdict& verdict) {
  const std::optional<int> count = host.count();
  // Which ones are hidden is not known.
  const bool some_hidden = count && *count < static_cast<int>(host.gpus.gpus.size());
  const std::vector<std::string> obstacles = some_hidden ? std::vector<std::string>() : obstacles_of(host.gpus);
  for (const std::string& obstacle : obstacles) verdict.problems.push_back({entry.host, obstacle, ""});
  for (const std::string& complaint : complaints_of(host.gpus)) {
    if (std::ranges::find(obstacles, complaint) == obstacles.end())
      verdict.notes.push_back(fmt::format("{}: {}", entry.host, complaint));
  }
  if (connected && host.usable.network.empty())
    verdict.problems.push_back({entry.host, host.usable.why_no_network, ""});
  if (!count) return;
  const std::string there =
      fmt::format("{}{}", count_text(*count, "GPU"),
                  host.visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", *host.visible) : std::string());
  if (gpus_per_node > *count) {
    verdict.problems.push_back({entry.host, fmt::format("it has {}, but --gpus-per-node is {}", there, gpus_per_node),
                                "lower --gpus-per-node, or leave the host out with --exclude"});
  } else if (entry.processes > *count) {
    verdict.problems.push_back({entry.host, fmt::format("{} for {}", count_text(entry.processes, "rank"), there),
                                "start one rank per GPU: the slots of the hostfile, --ppn or --gpus-per-node"});
  }
}

std::string summary(const HostGpus& host) {
  if (host.gpus.gpus.empty()) return fmt::format("GPUs of every host: {}", host.usable.hardware);
  return fmt::format("GPUs of every host: {} x {}, driver {}{}", host.gpus.gpus.size(), host.gpus.gpus[0].name,
                     host.gpus.driver, host.usable.network.empty() ? "" : ", " + host.usable.network);
}

}  // namespace

std::optional<int> HostGpus::count() const {
  if (gpus.gpus.empty()) return {};
  const int all = static_cast<int>(gpus.gpus.size());
  return visible ? std::min(all, listed(*visible)) : all;
}

HostGpus read_host_gpus() {
  HostGpus host{.gpus = read_node_gpus(), .usable = {}};  // before this process is one of the programs on a GPU
  host.usable = usable_gpu();
  if (const char* visible = environment_variable("CUDA_VISIBLE_DEVICES")) host.visible = visible;
  return host;
}

Json to_json(const HostGpus& host) {
  Json json = {{"gpus", to_json(host.gpus)},
               {"usable", host.usable.hardware},
               {"why_none", host.usable.why_none},
               {"network", host.usable.network},
               {"why_no_network", host.usable.why_no_network}};
  if (host.visible) json["visible"] = *host.visible;
  return json;
}

HostGpus host_gpus_from_json(const Json& json) {
  try {
    HostGpus host{.gpus = node_gpus_from_json(json.at("gpus")),
                  .usable = {json.at("usable"), json.at("why_none"), json.at("network"), json.at("why_no_network")}};
    if (json.contains("visible")) host.visible = json.at("visible").get<std::string>();
    return host;
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, "not a description of a host's GPUs: {}", e.what());
  }
}

GpuVerdict judge_gpus(const std::vector<Placement>& placement, const std::vector<HostGpus>& hosts, GpuWish wish,
                      int gpus_per_node) {
  GpuVerdict verdict;
  const auto has_none = [](const HostGpus& host) { return host.usable.hardware.empty(); };
  const auto none = static_cast<size_t>(std::ranges::count_if(hosts, has_none));
  if (wish == GpuWish::none || (wish == GpuWish::automatic && none == hosts.size())) return verdict;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!has_none(hosts[i])) continue;
    const std::string why = fmt::format("no GPU that this program can use: {}", hosts[i].usable.why_none);
    if (wish == GpuWish::required)
      verdict.problems.push_back(
          {placement[i].host, why, "`trireme device` there shows more; --run.device cpu computes without GPUs"});
    else
      verdict.notes.push_back(fmt::format("{}: {}; so all ranks compute on CPUs (--run.device cuda makes it an error)",
                                          placement[i].host, why));
  }
  if (wish == GpuWish::automatic && none > 0) return verdict;
  verdict.used = none == 0;
  const bool connected = total_processes(placement) > 1;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (!has_none(hosts[i])) judge_host(placement[i], hosts[i], gpus_per_node, connected, verdict);
    verdict.ranks.push_back(hosts[i].count().value_or(0));
  }
  judge_sameness(placement, hosts, verdict.problems);
  if (verdict.used && verdict.problems.empty()) verdict.notes.push_back(summary(hosts[0]));
  return verdict;
}

}  // namespace trireme::launch
