// AWS, through aws: one CloudFormation stack, which is created, changed and deleted as a whole.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "cloud/aws_stack.h"
#include "cloud/command_line.h"
#include "cloud/node_types.h"
#include "cloud/provider.h"
#include "cloud/provider_words.h"

namespace trireme::cloud {
namespace {

using Words = std::vector<std::string>;

Words aws(const Cluster& cluster, const Words& action) {
  Words words = {"aws"};
  words.insert(words.end(), action.begin(), action.end());
  words.insert(words.end(), {"--region", cluster.options.network.region, "--output", "json"});
  return words;
}

/// A stack's tags are [{"Key": ..., "Value": ...}].
std::string stack_tag(const Json& stack, const std::string& key) {
  if (!stack.contains("Tags")) return "";
  for (const Json& tag : stack["Tags"]) {
    if (text_in(tag, "Key") == key) return text_in(tag, "Value");
  }
  return "";
}

/// The current stack; null: missing.
Json stack_of(const Cluster& cluster) {
  const Words words = aws(cluster, {"cloudformation", "describe-stacks", "--stack-name", aws_stack_name(cluster)});
  const CommandEnd end = run_command(words);
  if (!end.ok && is_aws_no_stack(end.err)) return nullptr;
  require(end.ok, ErrorKind::io, "the stack: `aws cloudformation describe-stacks` failed: {}", end.err);
  const Json answer = parse_json(end.out, "answer of aws cloudformation describe-stacks");
  if (!answer.contains("Stacks") || answer["Stacks"].empty()) return nullptr;
  const Json& stack = answer["Stacks"][0];
  return text_in(stack, "StackStatus") == "DELETE_COMPLETE" ? Json(nullptr) : stack;
}

void require_ours(const Cluster& cluster, const Json& stack) {
  require(stack_tag(stack, "trireme-run") == cluster.run, ErrorKind::config,
          "nothing was done: the stack {} exists but does not belong to this cluster; choose another cluster.name",
          aws_stack_name(cluster));
}

/// CloudFormation's first reason for a failure in the last request.
std::string first_failure(const Cluster& cluster) {
  const CommandEnd end =
      run_command(aws(cluster, {"cloudformation", "describe-stack-events", "--stack-name", aws_stack_name(cluster)}));
  if (!end.ok) return end.err;
  std::string reason;
  const Json answer = parse_json(end.out, "answer of aws cloudformation describe-stack-events");
  for (const Json& event : answer.at("StackEvents")) {
    if (text_in(event, "ResourceStatusReason") == "User Initiated") break;
    if (!text_in(event, "ResourceStatus").ends_with("_FAILED")) continue;
    reason = text_in(event, "LogicalResourceId") + ": " + text_in(event, "ResourceStatusReason");
  }
  return reason.empty() ? "no reason given" : reason;  // the newest events are first, so this is the oldest
}

/// Waits until nothing is in progress; returns the stack's status, "" if it is gone.
std::string settled(const Cluster& cluster) {
  for (;;) {
    const Json stack = stack_of(cluster);
    if (stack.is_null()) return "";
    const std::string status = text_in(stack, "StackStatus");
    if (!status.ends_with("_IN_PROGRESS")) return status;
    std::this_thread::sleep_for(std::chrono::seconds(5));
  }
}

void delete_stack(const Cluster& cluster) {
  log::info("deleting the stack {}", aws_stack_name(cluster));
  run_or_fail("deleting the stack",
              aws(cluster, {"cloudformation", "delete-stack", "--stack-name", aws_stack_name(cluster)}));
  const std::string status = settled(cluster);
  if (status.empty()) return;
  fail(ErrorKind::io, "cannot delete the stack {} ({}): {}; run the same command to continue", aws_stack_name(cluster),
       status, first_failure(cluster));
}

/// Creates the stack or its missing parts.
void apply_stack(const Cluster& cluster, const std::string& folder) {
  Json stack = stack_of(cluster);
  if (!stack.is_null()) {
    require_ours(cluster, stack);
    const std::string status = settled(cluster);
    // A stack that was never complete, or is partly deleted, cannot be updated.
    if (status.empty()) {
      stack = nullptr;
    } else if (status == "CREATE_FAILED" || status == "DELETE_FAILED" || status.starts_with("ROLLBACK_")) {
      delete_stack(cluster);
      stack = nullptr;
    }
  }
  const bool is_new = stack.is_null();
  log::info("{} the stack {}", is_new ? "creating" : "updating", aws_stack_name(cluster));
  const CommandEnd asked = run_command(aws_stack_words(cluster, is_new ? "create-stack" : "update-stack", folder));
  if (!asked.ok && is_aws_no_update(asked.err)) return;
  require(asked.ok, ErrorKind::io,
          "the stack {}: {}; run `create` again to continue, or `delete` to remove what exists",
          aws_stack_name(cluster), asked.err);
  const std::string status = settled(cluster);
  if (status == "CREATE_COMPLETE" || status == "UPDATE_COMPLETE") return;
  fail(ErrorKind::io, "the stack {} ended as {}: {}; run `create` again to continue, or `delete` to remove what exists",
       aws_stack_name(cluster), status, first_failure(cluster));
}

Json instances_of(const Cluster& cluster) {
  Json found = Json::array();
  const Json answer =
      json_of("the machines",
              aws(cluster, {"ec2", "describe-instances", "--filters", "Name=tag:trireme-run,Values=" + cluster.run,
                            "Name=instance-state-name,Values=pending,running,stopping,stopped"}));
  for (const Json& reservation : answer["Reservations"]) {
    for (const Json& instance : reservation["Instances"]) found.push_back(instance);
  }
  return found;
}

/// Whether the machines were made by Terraform (aws_terraform.cc): they have the cluster's tag, but there is no stack.
bool made_by_terraform(const Cluster& cluster) { return stack_of(cluster).is_null() && !instances_of(cluster).empty(); }

/// Zones of the region that have a size. Empty: unknown.
std::set<std::string> zones_of(const Cluster& cluster, const std::string& type) {
  const Json answer = json_of("sizes of the region",
                              aws(cluster, {"ec2", "describe-instance-type-offerings", "--location-type",
                                            "availability-zone", "--filters", "Name=instance-type,Values=" + type}));
  std::set<std::string> zones;
  for (const Json& offering : answer["InstanceTypeOfferings"]) zones.insert(text_in(offering, "Location"));
  return zones;
}

/// The zone for all machines, shared by the placement group and the subnet. Adds errors to `problems`.
std::string zone_for(const Cluster& cluster, std::vector<std::string>& problems) {
  const std::string& region = cluster.options.network.region;
  const std::set<std::string> types = {type_of_head(cluster.options), type_of_nodes(cluster.options)};
  std::set<std::string> all;
  for (const std::string& type : types) {
    const std::set<std::string> zones = zones_of(cluster, type);
    if (zones.empty()) {
      problems.push_back(fmt::format("{} has no size {}; choose another network.region or node.type", region, type));
      return "";
    }
    std::set<std::string> both;
    std::ranges::set_intersection(all, zones, std::inserter(both, both.end()));
    all = type == *types.begin() ? zones : both;
  }
  const std::string& wanted = cluster.options.network.zone;
  if (!wanted.empty() && !all.contains(wanted)) {
    problems.push_back(fmt::format("network.zone {} does not have {}; choose one of {}", wanted,
                                   fmt::join(types, " and "), fmt::join(all, ", ")));
  } else if (all.empty()) {
    problems.push_back(
        fmt::format("no zone of {} has both {}; choose another network.region, node.type or node.head-type", region,
                    fmt::join(types, " and ")));
  }
  return !wanted.empty() || all.empty() ? wanted : *all.begin();
}

/// The image of a path in the parameter store, which changes every few weeks.
std::string image_for(const Cluster& cluster) {
  const std::string path = aws_image(cluster.options);
  if (!path.starts_with('/')) return path;
  const Json answer = json_of("the image", aws(cluster, {"ssm", "get-parameter", "--name", path}));
  const std::string image = answer.contains("Parameter") ? text_in(answer["Parameter"], "Value") : "";
  require(image.starts_with("ami-"), ErrorKind::config, "node.image: {} does not name an image in {}: found \"{}\"",
          path, cluster.options.network.region, image);
  return image;
}

/// The root device of the image, whose size is set. Empty: unknown.
std::string root_device_of(const Cluster& cluster, const std::string& image) {
  const CommandEnd end = run_command(aws(cluster, {"ec2", "describe-images", "--image-ids", image}));
  if (end.ok) {
    const Json answer = parse_json(end.out, "answer of aws ec2 describe-images");
    const Json images = answer.value("Images", Json::array());
    if (!images.empty() && !text_in(images[0], "RootDeviceName").empty()) return text_in(images[0], "RootDeviceName");
  }
  log::warning("cannot find the root device of {} ({}); using {}", image, end.ok ? "aws returned none" : end.err,
               aws_root_device(cluster));
  return "";
}

/// The limit of EC2 with this code; empty with the reason if it is unknown.
std::optional<double> quota_of(const Cluster& cluster, const char* code, std::string& why_unknown) {
  const CommandEnd end =
      run_command(aws(cluster, {"service-quotas", "get-service-quota", "--service-code", "ec2", "--quota-code", code}));
  why_unknown = end.ok ? "aws returned none" : end.err;
  const Json answer = end.ok ? parse_json(end.out, "answer of aws service-quotas get-service-quota") : Json();
  const bool known = answer.is_object() && answer.contains("Quota") && answer["Quota"].is_object() &&
                     answer["Quota"].contains("Value") && answer["Quota"]["Value"].is_number();
  return known ? std::optional(answer["Quota"]["Value"].get<double>()) : std::nullopt;
}

/// Hardware threads of all running machines of the common families together, which AWS limits. Machines outside the
/// cluster are not counted: this detects limits that the cluster alone exceeds.
void check_quota(const Cluster& cluster, std::vector<std::string>& problems) {
  int64_t needed = 0;
  for (const Node& node : cluster.nodes) {
    const std::string type = type_of(cluster.options, node);
    const NodeType* known = find_node_type(ProviderChoice::aws, type);
    if (known != nullptr && !type.starts_with("hpc")) needed += known->vcpus;
  }
  const char* code = cluster.options.node.spot ? "L-34B43A08" : "L-1216C47A";
  std::string why_unknown;
  const std::optional<double> limit = quota_of(cluster, code, why_unknown);
  if (!limit) return log::warning("cannot read the quota of {}: {}", cluster.options.network.region, why_unknown);
  if (static_cast<double>(needed) <= *limit) return;
  problems.push_back(
      fmt::format("quota of {}: {} hardware threads are needed, but {:.0f} are allowed; request more from AWS (quota "
                  "{}), or use fewer or smaller machines",
                  cluster.options.network.region, needed, *limit, code));
}

/// Machines with several network cards need one elastic address each (aws_stack.cc); AWS allows five by default.
void check_addresses(const Cluster& cluster, std::vector<std::string>& problems) {
  int64_t needed = 0;
  for (const Node& node : cluster.nodes) {
    const std::string type = type_of(cluster.options, node);
    const bool is_public = has_public_address(cluster.options, node);
    needed += is_public && uses_fast_network(cluster.options) && network_cards(type) > 1 ? 1 : 0;
  }
  if (needed == 0) return;
  if (needs_nat_gateway(cluster)) ++needed;  // the NAT gateway's
  std::string why_unknown;
  const std::optional<double> limit = quota_of(cluster, "L-0263D0A3", why_unknown);
  if (!limit || static_cast<double>(needed) <= *limit) return;
  problems.push_back(
      fmt::format("quota of {}: {} elastic addresses are needed, because machines with several network cards get no "
                  "other public address, but {:.0f} are allowed; request more from AWS (quota L-0263D0A3), use fewer "
                  "machines, or set network.fast off",
                  cluster.options.network.region, needed, *limit));
}

/// CloudFormation accepts a template of this size; a larger one would need a bucket.
constexpr size_t kLargestTemplate = 51200;

void check_size_of_stack(const Cluster& cluster, const SharedFolder& shared, const End& end) {
  const std::string text = aws_stack(cluster, shared, end);
  if (text.size() <= kLargestTemplate) return;
  Cluster fewer = cluster;
  do {
    fewer.nodes.pop_back();
  } while (!fewer.nodes.empty() && aws_stack(fewer, shared, end).size() > kLargestTemplate);
  fail(ErrorKind::config,
       "{} machines need a stack of {} bytes, but CloudFormation accepts {}, enough for {}; lower cluster.nodes, "
       "create two clusters, or use `trireme cluster plan --format terraform`",
       cluster.nodes.size(), text.size(), kLargestTemplate, fewer.nodes.size());
}

class Aws final : public Provider {
 public:
  std::vector<PlanFile> plan(const Cluster& cluster) const override {
    return {{"commands.sh", aws_script(cluster), true},
            {"stack.yaml", aws_stack(cluster, shared_folder(cluster), end(cluster)), false},
            {"cloud-init/node.yaml", cloud_init(cluster, nullptr, shared_folder(cluster), end(cluster)), false}};
  }

  void check_plan(const Cluster& cluster) const override {
    check_size_of_stack(cluster, shared_folder(cluster), end(cluster));
  }

  /// Existing machines, of Terraform or of a stack of a version without pins, keep their values.
  Pins pins(const Cluster& cluster) const override {
    Pins chosen = {{"asked-image", cluster.options.node.image}};
    const Json there = instances_of(cluster);
    if (!there.empty() && !text_in(there[0], "ImageId").empty()) {
      chosen["image"] = text_in(there[0], "ImageId");
      return chosen;
    }
    std::vector<std::string> problems;
    chosen["zone"] = zone_for(cluster, problems);
    require(problems.empty(), ErrorKind::config, "nothing was created: {}", fmt::join(problems, "; "));
    chosen["image"] = image_for(cluster);
    chosen["root-device"] = root_device_of(cluster, chosen["image"]);
    log::info("zone {} and image {} are fixed for all machines of the cluster",
              chosen["zone"].empty() ? "chosen by AWS" : chosen["zone"], chosen["image"]);
    return chosen;
  }

  SharedFolder shared_folder(const Cluster& cluster) const override {
    if (cluster.options.storage.kind != StorageChoice::provider) return {};
    return {storage_address(cluster.options) + ":/",
            "nfsvers=4.1,rsize=1048576,wsize=1048576,hard,timeo=600,retrans=2,noresvport,nofail,_netdev"};
  }

  End end(const Cluster&) const override { return {"shutdown"}; }

  void check(const Cluster& cluster) const override {
    check_plan(cluster);
    require_program("aws", "install it with `apt-get install awscli` or `pip install awscli`");
    const CommandEnd who = run_command(aws(cluster, {"sts", "get-caller-identity"}));
    require(who.ok, ErrorKind::config, "aws is not logged in: {}; run `aws configure` or `aws sso login`", who.err);
    if (const Json stack = stack_of(cluster); !stack.is_null()) {
      require_ours(cluster, stack);
      const std::vector<Machine> there = machines(cluster);
      const bool whole = std::ranges::all_of(
          cluster.nodes, [&](const Node& node) { return std::ranges::count(there, node.name, &Machine::node) > 0; });
      if (whole) return;
    } else if (made_by_terraform(cluster)) {
      return;
    }
    std::vector<std::string> problems;
    zone_for(cluster, problems);
    check_quota(cluster, problems);
    check_addresses(cluster, problems);
    require(problems.empty(), ErrorKind::config, "nothing was created: {}", fmt::join(problems, "; "));
  }

  std::vector<std::pair<std::string, std::string>> make(const Cluster& cluster,
                                                        const std::string& folder) const override {
    const bool terraform = made_by_terraform(cluster);
    if (terraform) {
      log::info("the machines were created by Terraform: setting them up as they are");
    } else {
      apply_stack(cluster, folder);
    }
    // CloudFormation does not check whether the resources that it created still exist.
    const std::vector<Machine> there = machines(cluster);
    std::vector<std::pair<std::string, std::string>> missing;
    for (const Node& node : cluster.nodes) {
      if (std::ranges::count(there, node.name, &Machine::node) > 0) continue;
      if (terraform) {
        require(!node.is_head(), ErrorKind::io, "the head's machine does not exist; create it with `terraform apply`");
        missing.emplace_back(node.name, "its machine does not exist; create it with `terraform apply`");
        continue;
      }
      require(!node.is_head(), ErrorKind::io,
              "the head's machine has ended, after cluster.lifetime-hours or by hand; run `trireme cluster delete` to "
              "remove the rest, then `create` to create the cluster again");
      missing.emplace_back(
          node.name, fmt::format("its machine has ended{}; replace it with `trireme cluster remove` and `add`",
                                 cluster.options.node.spot ? ", as spot machines do when AWS reclaims them" : ""));
    }
    return missing;
  }

  std::vector<Machine> machines(const Cluster& cluster) const override {
    std::vector<Machine> found;
    for (const Json& instance : instances_of(cluster)) {
      found.push_back({stack_tag(instance, "Name"), text_in(instance, "PublicIpAddress"),
                       text_in(instance["State"], "Name"), text_in(instance, "InstanceId")});
    }
    return found;
  }

  /// From the console, where cloud-init prints them at the first start.
  std::optional<std::vector<std::string>> host_keys(const Cluster& cluster, const Node& node) const override {
    std::vector<std::string> keys;
    for (const Json& instance : instances_of(cluster)) {
      if (stack_tag(instance, "Name") != node.name) continue;
      const Json answer = json_of(
          "console of " + node.name,
          aws(cluster, {"ec2", "get-console-output", "--instance-id", text_in(instance, "InstanceId"), "--latest"}));
      std::istringstream lines(text_in(answer, "Output"));
      bool inside = false;
      for (std::string line; std::getline(lines, line);) {
        if (line.find("BEGIN SSH HOST KEY KEYS") != std::string::npos) inside = true, keys.clear();
        if (line.find("END SSH HOST KEY KEYS") != std::string::npos) inside = false;
        if (const std::string key = inside ? host_key_in(line) : ""; !key.empty()) keys.push_back(key);
      }
    }
    return keys;
  }

  void remove(const Cluster& cluster, const Node& node, const std::string& folder) const override {
    require(!made_by_terraform(cluster), ErrorKind::config,
            "{} was created by Terraform; lower cluster.nodes, plan again with --format terraform and run `terraform "
            "apply`, which deletes the last nodes",
            node.name);
    apply_stack(cluster, folder);
  }

  std::vector<std::string> destroy(const Cluster& cluster) const override {
    require_program("aws", "install it with `apt-get install awscli` or `pip install awscli`");
    const Json stack = stack_of(cluster);
    if (stack.is_null()) {
      require(!made_by_terraform(cluster), ErrorKind::config,
              "nothing was deleted: the machines were created by Terraform; delete them with `terraform destroy`");
      return {};
    }
    require_ours(cluster, stack);
    settled(cluster);
    delete_stack(cluster);
    return {};
  }
};

}  // namespace

std::unique_ptr<Provider> make_aws() { return std::make_unique<Aws>(); }

}  // namespace trireme::cloud
