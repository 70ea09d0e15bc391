// Azure, through az: creates and deletes the resources of a cluster.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "cloud/azure.h"
#include "cloud/command_line.h"
#include "cloud/node_types.h"
#include "cloud/provider.h"
#include "cloud/provider_words.h"

namespace trireme::cloud {
namespace {

using Words = std::vector<std::string>;

bool is_ours(const Cluster& cluster, const Json& resource) { return tag_in(resource, "trireme-run") == cluster.run; }

/// Types of resources in the order in which they can be deleted: each is used only by those before it.
constexpr std::array<const char*, 9> kOrder = {
    "Microsoft.Compute/virtualMachines",   "Microsoft.Network/networkInterfaces",
    "Microsoft.Network/publicIPAddresses", "Microsoft.Compute/disks",
    "Microsoft.Compute/availabilitySets",  "Microsoft.Compute/proximityPlacementGroups",
    "Microsoft.Storage/storageAccounts",   "Microsoft.Network/virtualNetworks",
    "Microsoft.Network/natGateways"};

size_t place_in_order(const Json& resource) {
  if (text_in(resource, "name").ends_with("-nat-ip")) return kOrder.size();  // the gateway uses it
  const auto found = std::ranges::find(kOrder, text_in(resource, "type"));
  return static_cast<size_t>(found - kOrder.begin());
}

void delete_resources(std::vector<Json> resources) {
  std::ranges::stable_sort(resources, {}, place_in_order);
  for (const Json& resource : resources) {
    log::info("deleting {}", text_in(resource, "name"));
    const CommandEnd end = run_command({"az", "resource", "delete", "--ids", text_in(resource, "id")});
    // Resources deleted with a machine (its disk and its network card) are already gone.
    if (end.ok || is_azure_not_found(end.err)) continue;
    fail(ErrorKind::io, "cannot delete {}: {}; run the same command to continue", text_in(resource, "name"), end.err);
  }
}

std::vector<Json> ours(const Cluster& cluster) {
  std::vector<Json> found;
  for (const Json& resource : azure_resources(cluster)) {
    if (is_ours(cluster, resource)) found.push_back(resource);
  }
  return found;
}

/// Inserts the outputs of earlier steps into the words.
Words filled(const Words& words, const std::vector<std::pair<std::string, std::string>>& captured) {
  Words result = words;
  for (std::string& word : result) {
    for (const auto& [name, value] : captured) {
      if (word == "{" + name + "}") word = value;
    }
  }
  return result;
}

std::string describe_no_capacity(const Cluster& cluster, const Node& node, const std::string& reason) {
  const ClusterOptions& options = cluster.options;
  const bool spot = options.node.spot && !node.is_head();
  return fmt::format(
      "Azure currently has no free {}{} in {}; run the same command later, or choose another region or size{} ({})",
      spot ? "spot " : "", type_of(options, node), options.network.region, spot ? ", or node.spot off" : "", reason);
}

/// Why the machine of a node is missing: from its instance view, otherwise the error of `az vm wait`.
std::string why_missing(const Cluster& cluster, const Node& node, const std::string& waited) {
  const CommandEnd asked = run_command({"az", "vm", "get-instance-view", "--resource-group", azure_group(cluster),
                                        "--name", node.name, "--output", "json"});
  if (!asked.ok) {
    if (is_azure_not_found(asked.err) && cluster.options.node.spot && !node.is_head())
      return "Azure has reclaimed its spot machine; run the same command to create it again";
    return waited;
  }
  const Json view = parse_json(asked.out, "answer of az vm get-instance-view");
  if (!view.is_object() || !view.contains("instanceView") || !view["instanceView"].is_object()) return waited;
  const Json statuses = view["instanceView"].value("statuses", Json::array());
  for (const Json& status : statuses.is_array() ? statuses : Json::array()) {
    const std::string code = text_in(status, "code");
    if (!code.starts_with("ProvisioningState/failed")) continue;
    const std::string reason = code.substr(code.rfind('/') + 1) + ": " + text_in(status, "message");
    return is_azure_no_capacity(reason) ? describe_no_capacity(cluster, node, reason) : reason;
  }
  return waited;
}

/// PUBLISHER:OFFER:SKU:VERSION of the image: "latest" and an alias such as Debian12 change every few weeks. Images by
/// identity are returned unchanged.
std::string image_for(const Cluster& cluster) {
  std::string urn = azure_image(cluster.options);
  if (urn.starts_with('/')) return urn;
  if (std::ranges::count(urn, ':') != 3) {
    const Json aliases = list_of("the images", {"az", "vm", "image", "list", "--output", "json"});
    const auto named =
        std::ranges::find_if(aliases, [&](const Json& image) { return text_in(image, "urnAlias") == urn; });
    require(named != aliases.end(), ErrorKind::config,
            "node.image: {} is neither PUBLISHER:OFFER:SKU:VERSION, an identity (/subscriptions/...) nor a name of `az "
            "vm image list`",
            urn);
    urn = text_in(*named, "urn");
  }
  if (!urn.ends_with(":latest")) return urn;
  const std::string& region = cluster.options.network.region;
  const Json image =
      json_of("the image", {"az", "vm", "image", "show", "--location", region, "--urn", urn, "--output", "json"});
  const std::string version = text_in(image, "name");
  require(!version.empty(), ErrorKind::config, "node.image: az returned no version of {} in {}", urn, region);
  return urn.substr(0, urn.rfind(':') + 1) + version;
}

class Azure final : public Provider {
 public:
  std::vector<PlanFile> plan(const Cluster& cluster) const override {
    if (cluster.options.cluster.scheduler == SchedulerChoice::cyclecloud) return cyclecloud_plan(cluster);
    return {{"commands.sh", azure_script(cluster), true},
            {"cloud-init/node.yaml", cloud_init(cluster, nullptr, shared_folder(cluster), end(cluster)), false},
            {"key.pub", cluster.public_key + "\n", false}};
  }

  Pins pins(const Cluster& cluster) const override {
    const std::string image = image_for(cluster);
    log::info("image {} is fixed for all machines of the cluster", image);
    return {{"image", image}, {"asked-image", cluster.options.node.image}};
  }

  SharedFolder shared_folder(const Cluster& cluster) const override {
    if (cluster.options.storage.kind != StorageChoice::provider) return {};
    const std::string account = azure_account(cluster);
    return {fmt::format("{0}.file.core.windows.net:/{0}/cluster", account),
            "vers=4,minorversion=1,sec=sys,nofail,_netdev"};
  }

  End end(const Cluster& cluster) const override { return {azure_group(cluster)}; }

  void check(const Cluster& cluster) const override { check_azure(cluster); }

  std::vector<std::pair<std::string, std::string>> make(const Cluster& cluster,
                                                        const std::string& folder) const override {
    std::vector<Json> there = ours(cluster);
    // A machine whose creation failed exists but is useless.
    std::vector<Json> failed;
    for (const Json& resource : there) {
      const bool is_machine = text_in(resource, "type") == "Microsoft.Compute/virtualMachines";
      if (is_machine && text_in(resource, "provisioningState") == "Failed") failed.push_back(resource);
    }
    delete_resources(failed);
    if (!failed.empty()) there = ours(cluster);

    std::vector<std::pair<std::string, std::string>> captured, missing;
    const auto node_called = [&](const std::string& name) {
      return *std::ranges::find(cluster.nodes, name, &Node::name);
    };
    for (const AzureStep& step : azure_steps(cluster, folder)) {
      const bool given_up = std::ranges::any_of(missing, [&](const auto& one) { return one.first == step.waits_for; });
      const bool exists = !step.type.empty() && std::ranges::any_of(there, [&](const Json& resource) {
        return text_in(resource, "type") == step.type && text_in(resource, "name") == step.name;
      });
      if (exists || given_up) continue;
      log::info("{}", step.what);
      const CommandEnd done = run_command(filled(step.words, captured));
      if (!done.ok && !step.machine_of.empty() && is_azure_no_capacity(done.err)) {
        missing.emplace_back(step.machine_of, describe_no_capacity(cluster, node_called(step.machine_of), done.err));
        continue;
      }
      if (!done.ok && step.waits_for.empty()) {
        fail(ErrorKind::io,
             "{}: `az {} {}` failed: {}; run `create` again to continue, or `delete` to remove what exists", step.what,
             step.words[1], step.words[2], done.err);
      }
      if (!done.ok) missing.emplace_back(step.waits_for, why_missing(cluster, node_called(step.waits_for), done.err));
      std::string out = done.out;
      while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
      if (!step.captures.empty()) captured.emplace_back(step.captures, out);
    }
    return missing;
  }

  std::vector<Machine> machines(const Cluster& cluster) const override {
    std::vector<Machine> found;
    const Words words = {"az",       "vm",  "list", "--resource-group", azure_group(cluster), "--show-details",
                         "--output", "json"};
    const CommandEnd end = run_command(words);
    // A cluster that ended automatically has deleted its group.
    if (!end.ok && is_azure_group_not_found(end.err)) return found;
    for (const Json& machine : list_in("the machines", words, end)) {
      if (!is_ours(cluster, machine)) continue;
      std::string state = text_in(machine, "powerState");
      if (state == "VM stopped") state += ", still charged";
      if (state == "VM deallocated") state += ", disks still charged";
      found.push_back({text_in(machine, "name"), text_in(machine, "publicIps"), state, text_in(machine, "vmId")});
    }
    return found;
  }

  /// Through the agent of the machine, which answers only accounts with rights to the machine.
  std::optional<std::vector<std::string>> host_keys(const Cluster& cluster, const Node& node) const override {
    const Json answer =
        json_of("host keys of " + node.name,
                {"az", "vm", "run-command", "invoke", "--resource-group", azure_group(cluster), "--name", node.name,
                 "--command-id", "RunShellScript", "--scripts", "cat /etc/ssh/ssh_host_*_key.pub", "--output", "json"});
    std::vector<std::string> keys;
    if (!answer.is_object() || !answer.contains("value") || !answer["value"].is_array()) return keys;
    for (const Json& part : answer["value"]) {
      std::istringstream lines(text_in(part, "message"));
      for (std::string line; std::getline(lines, line);) {
        if (const std::string key = host_key_in(line); !key.empty()) keys.push_back(key);
      }
    }
    return keys;
  }

  void remove(const Cluster& cluster, const Node& node, const std::string&) const override {
    std::vector<Json> leaving;
    for (const Json& resource : ours(cluster)) {
      const std::string name = text_in(resource, "name");
      if (name == node.name || name == node.name + "-nic" || name == node.name + "-ip") leaving.push_back(resource);
    }
    delete_resources(leaving);
  }

  std::vector<std::string> destroy(const Cluster& cluster) const override {
    require_program("az", "install it with `apt-get install azure-cli` or `pip install azure-cli`");
    const std::string group = azure_group(cluster);
    if (!azure_group_exists(cluster)) return {};
    const Json all = azure_resources(cluster);
    const Json itself = json_of("the resource group", {"az", "group", "show", "--name", group, "--output", "json"});
    const bool own = owns_group(cluster) && is_ours(cluster, itself);
    std::vector<std::string> foreign;
    for (const Json& resource : all) {
      // A machine's disk has none of our tags, but a known name.
      const std::string name = text_in(resource, "name");
      const bool disk = text_in(resource, "type") == "Microsoft.Compute/disks" &&
                        name.starts_with(cluster.name() + "-") && name.ends_with("-os");
      if (!is_ours(cluster, resource) && !disk) foreign.push_back(name);
    }
    if (own && foreign.empty()) {
      log::info("deleting the resource group {}", group);
      run_or_fail("deleting the resource group", {"az", "group", "delete", "--name", group, "--yes"});
      return {};
    }
    delete_resources(ours(cluster));
    if (!own || foreign.empty()) return {};
    return {fmt::format("keeping the resource group {}, because it also contains other resources: {}", group,
                        fmt::join(foreign, ", "))};
  }
};

}  // namespace

std::unique_ptr<Provider> make_azure() { return std::make_unique<Azure>(); }

}  // namespace trireme::cloud
