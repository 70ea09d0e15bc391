#include "cloud/terraform.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "cloud/node_types.h"

namespace trireme::cloud {

std::string terraform_sources(const Cluster& cluster) {
  Hcl variable("variable", {"allowed_sources"});
  variable.text("description", "addresses that may connect by ssh (access.from)").set("type", "list(string)");
  if (!cluster.sources.empty()) variable.set("default", hcl_texts(cluster.sources));
  Hcl validation("validation");
  validation
      .set("condition",
           "length(var.allowed_sources) > 0 && alltrue([for s in var.allowed_sources : can(cidrhost(s, 0)) && "
           "tonumber(split(\"/\", s)[1]) >= 8])")
      .text("error_message", "Name networks such as 203.0.113.7/32, and not the whole internet.");
  return variable.block(validation).str();
}

std::string terraform_tags(const Cluster& cluster) {
  std::vector<std::pair<std::string, std::string>> tags;
  for (const auto& [key, value] : tags_of(cluster)) tags.emplace_back(key, hcl_text(value));
  return Hcl("locals").map("tags", tags).str();
}

std::string terraform_nodes(const Cluster& cluster, const std::function<HclMembers(const Node&)>& more) {
  const ClusterOptions& options = cluster.options;
  HclMembers nodes;
  for (const Node& node : cluster.nodes) {
    HclMembers members = {{"address", hcl_text(node.address)},
                          {"size", hcl_text(type_of(options, node))},
                          {"head", node.is_head() ? "true" : "false"},
                          {"public", has_public_address(options, node) ? "true" : "false"},
                          {"spot", options.node.spot && !node.is_head() ? "true" : "false"}};
    for (auto& member : more(node)) members.push_back(std::move(member));
    nodes.emplace_back(node.name, hcl_object(members));
  }
  return Hcl("locals").map("nodes", nodes).str();
}

std::vector<PlanFile> terraform_plan(const Cluster& cluster) {
  switch (cluster.options.cluster.provider) {
    case ProviderChoice::azure:
      return cluster.options.cluster.scheduler == SchedulerChoice::cyclecloud ? cyclecloud_terraform(cluster)
                                                                              : azure_terraform(cluster);
    case ProviderChoice::aws:
      return aws_terraform(cluster);
    case ProviderChoice::hosts:
      break;
  }
  fail(ErrorKind::usage,
       "--format terraform: the machines of provider hosts exist already, so Terraform has nothing to create; leave "
       "the option out, or choose provider azure or aws");
}

std::string describe_terraform(const Cluster& cluster) {
  if (cluster.options.cluster.scheduler == SchedulerChoice::cyclecloud)
    return "create it with `terraform init` and `terraform apply` there; docs/cluster-terraform.md describes the next "
           "steps\n";
  return "create the machines with `terraform init` and `terraform apply` there, then set them up with `trireme "
         "cluster create`\n";
}

}  // namespace trireme::cloud
