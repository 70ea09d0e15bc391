#include "cloud/azure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "cloud/command_line.h"
#include "cloud/node_types.h"

namespace trireme::cloud {
namespace {

/// A number from az, which writes some numbers as text.
int64_t number_in(const Json& json, const char* member) {
  if (!json.is_object() || !json.contains(member)) return 0;
  const Json& value = json[member];
  if (value.is_number()) return value.get<int64_t>();
  return value.is_string() ? std::strtoll(value.get<std::string>().c_str(), nullptr, 10) : 0;
}

int64_t cpus_of(const Json& size) {
  if (!size.contains("capabilities") || !size["capabilities"].is_array()) return 0;
  for (const Json& capability : size["capabilities"]) {
    if (text_in(capability, "name") == "vCPUs") return number_in(capability, "value");
  }
  return 0;
}

/// Checks a size in the region; adds the processors that its machines need to `needed`.
void check_size(const Cluster& cluster, const std::string& type, bool spot, int64_t machines,
                std::map<std::string, int64_t>& needed, std::vector<std::string>& problems) {
  const std::string& region = cluster.options.network.region;
  const Json sizes =
      list_of("sizes of the region", {"az", "vm", "list-skus", "--location", region, "--size", type, "--resource-type",
                                      "virtualMachines", "--all", "--output", "json"});
  const Json* found = nullptr;
  for (const Json& size : sizes) {
    if (text_in(size, "name") == type) found = &size;
  }
  if (found == nullptr) {
    problems.push_back(fmt::format("{} has no size {}; choose another network.region or node.type", region, type));
    return;
  }
  if (found->contains("restrictions") && (*found)["restrictions"].is_array()) {
    for (const Json& restriction : (*found)["restrictions"]) {
      if (text_in(restriction, "type") != "Location") continue;
      problems.push_back(
          fmt::format("{} of {} is not available to this subscription ({}); choose another region or size, or request "
                      "it from Azure",
                      type, region, text_in(restriction, "reasonCode")));
    }
  }
  const int64_t cpus = cpus_of(*found) * machines;
  if (spot) {
    needed["lowPriorityCores"] += cpus;
    return;
  }
  needed[text_in(*found, "family")] += cpus;
  needed["cores"] += cpus;
}

void check_quota(const Cluster& cluster, const std::map<std::string, int64_t>& needed,
                 std::vector<std::string>& problems) {
  const std::string& region = cluster.options.network.region;
  for (const Json& usage : list_of("the quota", {"az", "vm", "list-usage", "--location", region, "--output", "json"})) {
    const Json name = usage.contains("name") ? usage["name"] : Json();
    const auto wanted = needed.find(text_in(name, "value"));
    if (wanted == needed.end()) continue;
    const int64_t limit = number_in(usage, "limit"), used = number_in(usage, "currentValue");
    if (used + wanted->second <= limit) continue;
    problems.push_back(
        fmt::format("quota of {} in {}: {} processors are needed, but {} of {} are free; request more from Azure, or "
                    "use fewer or smaller machines",
                    text_in(name, "localizedValue"), region, wanted->second, limit - used, limit));
  }
}

}  // namespace

bool azure_group_exists(const Cluster& cluster) {
  return run_or_fail("the resource group", {"az", "group", "exists", "--name", azure_group(cluster)})
      .starts_with("true");
}

Json azure_resources(const Cluster& cluster) {
  if (!azure_group_exists(cluster)) return Json::array();
  return list_of("the existing resources",
                 {"az", "resource", "list", "--resource-group", azure_group(cluster), "--output", "json"});
}

void check_azure(const Cluster& cluster) {
  require_program("az", "install it with `apt-get install azure-cli` or `pip install azure-cli`");
  const CommandEnd account = run_command({"az", "account", "show", "--output", "json"});
  require(account.ok, ErrorKind::config, "az is not logged in: {}; run `az login`", account.err);

  std::vector<std::string> problems;
  std::map<std::string, int64_t> needed;
  const ClusterOptions& options = cluster.options;
  // Existing machines are part of the usage.
  std::set<std::string> there;
  const std::string group = azure_group(cluster);
  const bool exists = azure_group_exists(cluster);
  if (!exists && !owns_group(cluster))
    problems.push_back(fmt::format("azure.resource-group: {} does not exist", group));
  if (exists && owns_group(cluster)) {
    const Json itself = json_of("the resource group", {"az", "group", "show", "--name", group, "--output", "json"});
    if (tag_in(itself, "trireme-run") != cluster.run) {
      problems.push_back(fmt::format(
          "the resource group {} exists but does not belong to this cluster; choose another cluster.name", group));
    }
  }
  std::set<std::pair<std::string, std::string>> names;
  for (const AzureStep& step : azure_steps(cluster, "")) names.emplace(step.type, step.name);
  for (const Json& resource : exists ? azure_resources(cluster) : Json::array()) {
    const std::string type = text_in(resource, "type"), name = text_in(resource, "name");
    const bool is_ours = tag_in(resource, "trireme-run") == cluster.run;
    if (is_ours && type == "Microsoft.Compute/virtualMachines") there.insert(name);
    if (!is_ours && names.contains({type, name})) {
      problems.push_back(
          fmt::format("{} exists but does not belong to this cluster; choose another cluster.name", name));
    }
  }
  std::map<std::pair<std::string, bool>, int64_t> machines;  // by size, and whether spot
  for (const Node& node : cluster.nodes) {
    if (there.contains(node.name)) continue;
    const std::string type = type_of(options, node);
    ++machines[{type, options.node.spot && !node.is_head()}];
  }
  for (const auto& [kind, count] : machines) check_size(cluster, kind.first, kind.second, count, needed, problems);
  if (!needed.empty()) check_quota(cluster, needed, problems);
  require(problems.empty(), ErrorKind::config, "nothing was created: {}", fmt::join(problems, "; "));
}

}  // namespace trireme::cloud
