// Machines on AWS as Terraform's configuration: the resources of aws_stack.cc, with the same tags, so that `trireme
// cluster create` finds them and sets them up.

#include <fmt/format.h>

#include <algorithm>

#include "cloud/aws_resources.h"
#include "cloud/aws_stack.h"
#include "cloud/node_types.h"
#include "cloud/terraform.h"

namespace trireme::cloud {
namespace {

std::string tags_with_name(const std::string& name) { return fmt::format("merge(local.tags, {{ Name = {} }})", name); }

/// "cidr_block" of "CidrBlock".
std::string with_underscores(const std::string& words) {
  std::string text;
  for (const char c : words) {
    const bool begins = c >= 'A' && c <= 'Z';
    if (begins && !text.empty()) text += '_';
    text += begins ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

std::vector<Hcl> blocks_of(const Cluster& cluster, const std::vector<AwsResource>& resources) {
  std::vector<Hcl> blocks;
  for (const AwsResource& one : resources) {
    if (one.terraform.empty()) continue;
    const size_t dot = one.terraform.find('.');
    Hcl& block = blocks.emplace_back(
        "resource", std::vector<std::string>{one.terraform.substr(0, dot), one.terraform.substr(dot + 1)});
    if (!one.tag_name.empty()) block.set("tags", tags_with_name(hcl_text(cluster.name())));
    if (!one.comment.empty()) block.comment(one.comment);
    for (const auto& [name, value] : one.properties) block.set(with_underscores(name), value.terraform);
    if (!one.after.empty()) block.set("depends_on", one.after);
  }
  return blocks;
}

std::string joined(const std::vector<Hcl>& blocks) {
  std::string text;
  for (const Hcl& block : blocks) text += (text.empty() ? "" : "\n") + block.str();
  return text;
}

std::string versions(const Cluster& cluster) {
  Hcl aws("required_providers");
  aws.set("aws", "{\n  source  = \"hashicorp/aws\"\n  version = \">= 5.80\"\n}");
  Hcl provider("provider", {"aws"});
  provider.comment("The login is that of `aws configure` or `aws sso login`.")
      .text("region", cluster.options.network.region);
  return fmt::format("# The cluster {} on AWS; made by `trireme cluster plan --format terraform`.\n", cluster.name()) +
         Hcl("terraform").text("required_version", ">= 1.5").block(aws).str() + "\n" + provider.str();
}

/// The zone for all machines: one that offers all their sizes.
std::string zone(const Cluster& cluster) {
  const ClusterOptions& options = cluster.options;
  std::vector<std::string> sizes = {type_of_head(options)};
  if (type_of_nodes(options) != sizes.front()) sizes.push_back(type_of_nodes(options));
  Hcl offered("data", {"aws_ec2_instance_type_offerings", "size"});
  Hcl filter("filter");
  filter.text("name", "instance-type").set("values", "[each.key]");
  offered.set("for_each", fmt::format("toset({})", hcl_texts(sizes)))
      .text("location_type", "availability-zone")
      .block(filter);
  Hcl chosen("locals");
  chosen
      .set("zones",
           "sort(setintersection([for size in data.aws_ec2_instance_type_offerings.size : toset(size.locations)]...))")
      .set("zone", options.network.zone.empty() ? "length(local.zones) > 0 ? local.zones[0] : \"none\""
                                                : hcl_text(options.network.zone));
  return "# Zones that offer all sizes.\n" + offered.str() + "\n" + chosen.str();
}

std::string firewall(const Cluster& cluster) {
  Hcl group("resource", {"aws_security_group", "cluster"});
  group.set("tags", tags_with_name(hcl_text(cluster.name())))
      .text("name", aws_stack_name(cluster))
      .text("description", "ssh from the caller, everything among the nodes")
      .set("vpc_id", "aws_vpc.cluster.id");
  Hcl ssh("resource", {"aws_vpc_security_group_ingress_rule", "ssh"});
  ssh.set("for_each", "toset(var.allowed_sources)")
      .set("security_group_id", "aws_security_group.cluster.id")
      .text("description", "ssh of the caller")
      .set("cidr_ipv4", "each.key")
      .text("ip_protocol", "tcp")
      .set("from_port", "22")
      .set("to_port", "22");
  Hcl in("resource", {"aws_vpc_security_group_ingress_rule", "nodes"});
  in.set("security_group_id", "aws_security_group.cluster.id")
      .text("description", "everything among the nodes")
      .set("referenced_security_group_id", "aws_security_group.cluster.id")
      .text("ip_protocol", "-1");
  Hcl out("resource", {"aws_vpc_security_group_egress_rule", "nodes"});
  out.set("security_group_id", "aws_security_group.cluster.id")
      .text("description", "everything among the nodes")
      .set("referenced_security_group_id", "aws_security_group.cluster.id")
      .text("ip_protocol", "-1");
  Hcl internet("resource", {"aws_vpc_security_group_egress_rule", "internet"});
  internet.set("security_group_id", "aws_security_group.cluster.id")
      .text("description", "packages and models")
      .text("cidr_ipv4", "0.0.0.0/0")
      .text("ip_protocol", "-1");
  return "# The fabric adapter needs a group that is open to itself in both directions.\n" + group.str() + "\n" +
         ssh.str() + "\n" + in.str() + "\n" + out.str() + "\n" + internet.str();
}

std::string network(const Cluster& cluster) {
  std::vector<Hcl> subnet = blocks_of(cluster, aws_subnet(cluster));
  Hcl cycle("lifecycle"), condition("precondition");
  condition.set("condition", "contains(local.zones, local.zone)")
      .text("error_message", "No zone of the region, or not the one named, offers all sizes of the cluster.");
  cycle.comment("The zone stays as it was chosen while the cluster exists.")
      .set("ignore_changes", "[availability_zone]")
      .block(condition);
  subnet.front().block(cycle);
  std::string text = terraform_tags(cluster) + "\n" + zone(cluster) + "\n" +
                     joined(blocks_of(cluster, aws_network(cluster))) + "\n" + joined(subnet) + "\n" +
                     joined(blocks_of(cluster, aws_way_out(cluster))) + "\n";
  if (needs_nat_gateway(cluster)) {
    Hcl answers("resource", {"aws_route", "caller"});
    answers.set("for_each", "toset(var.allowed_sources)")
        .set("route_table_id", "aws_route_table.nodes.id")
        .set("destination_cidr_block", "each.key")
        .set("gateway_id", "aws_internet_gateway.cluster.id");
    text += "# Replies of the head's ssh leave through the gateway that has its address.\n" + answers.str() + "\n";
  }
  return text + firewall(cluster);
}

/// EC2 gives no public address to a machine that starts with several cards: it has a first card and an address made
/// before it.
bool has_own_card(const ClusterOptions& options, const Node& node) {
  return has_public_address(options, node) && aws_cards(options, node).cards > 1;
}

std::string own_cards() {
  Hcl card("resource", {"aws_network_interface", "node"});
  card.set("for_each", "{ for name, node in local.nodes : name => node if node.own_card }")
      .set("tags", tags_with_name("each.key"))
      .text("interface_type", "efa")
      .set("private_ips", "[each.value.address]")
      .set("subnet_id", "aws_subnet.nodes.id")
      .set("security_groups", "[aws_security_group.cluster.id]");
  Hcl address("resource", {"aws_eip", "node"});
  address.set("for_each", "aws_network_interface.node")
      .set("tags", tags_with_name("each.key"))
      .text("domain", "vpc")
      .set("network_interface", "each.value.id")
      .set("depends_on", "[aws_internet_gateway.cluster]");
  return "# The first card and the public address of machines with several cards.\n" + card.str() + "\n" +
         address.str() + "\n";
}

std::string launch(bool any_own_card) {
  Hcl first("network_interfaces");
  first.set("device_index", "0").set("network_card_index", "0");
  const auto unless_own = [&](const std::string& value) {
    return any_own_card ? "each.value.own_card ? null : " + value : value;
  };
  if (any_own_card)
    first.set("network_interface_id", "each.value.own_card ? aws_network_interface.node[each.key].id : null");
  first
      .set("interface_type",
           any_own_card ? "each.value.efa && !each.value.own_card ? \"efa\" : null" : "each.value.efa ? \"efa\" : null")
      .set("associate_public_ip_address", "each.value.cards > 1 ? null : each.value.public")
      .set("private_ip_address", unless_own("each.value.address"))
      .set("subnet_id", unless_own("aws_subnet.nodes.id"))
      .set("security_groups", unless_own("[aws_security_group.cluster.id]"))
      .set("delete_on_termination", unless_own("true"));
  Hcl others("dynamic", {"network_interfaces"}), content("content");
  content.set("device_index", "1")
      .set("network_card_index", "network_interfaces.value")
      .set("interface_type", "each.value.cards > 2 ? \"efa-only\" : \"efa\"")
      .set("subnet_id", "aws_subnet.nodes.id")
      .set("security_groups", "[aws_security_group.cluster.id]")
      .set("delete_on_termination", "true");
  others.set("for_each", "range(1, each.value.cards)").block(content);
  Hcl options("metadata_options");
  options.text("http_endpoint", "enabled").text("http_tokens", "required").set("http_put_response_hop_limit", "1");
  Hcl tagged("tag_specifications");
  tagged.text("resource_type", "network-interface").set("tags", tags_with_name("each.key"));
  Hcl block("resource", {"aws_launch_template", "node"});
  block.comment("checkov:skip=CKV_AWS_88: only machines that are to be reached from outside have a public address")
      .set("for_each", "local.nodes")
      .set("name", "\"trireme-${each.key}\"")
      .set("tags", tags_with_name("each.key"))
      .block(options)
      .block(first)
      .block(others)
      .block(tagged);
  return block.str();
}

std::string nodes(const Cluster& cluster) {
  const ClusterOptions& options = cluster.options;
  const bool any_own_card =
      std::ranges::any_of(cluster.nodes, [&](const Node& node) { return has_own_card(options, node); });
  std::string text = terraform_nodes(cluster, [&](const Node& node) {
    const AwsCards network = aws_cards(options, node);
    const std::string type = type_of(options, node);
    HclMembers members = {{"efa", network.fast ? "true" : "false"},
                          {"cards", std::to_string(network.cards)},
                          {"placed", is_placed_on_aws(type) ? "true" : "false"}};
    if (any_own_card) members.emplace_back("own_card", has_own_card(options, node) ? "true" : "false");
    return members;
  });
  text += "\n";
  const std::string image = aws_image(options);
  const bool by_path = image.starts_with('/');
  if (by_path) text += Hcl("data", {"aws_ssm_parameter", "image"}).text("name", image).str() + "\n";

  text += joined(blocks_of(cluster, aws_placement(cluster))) + "\n" + (any_own_card ? own_cards() : "") +
          launch(any_own_card) + "\n";

  Hcl machine("resource", {"aws_instance", "node"});
  machine.comment("checkov:skip=CKV_AWS_126: detailed monitoring costs money; trireme health watches the nodes")
      .comment("checkov:skip=CKV2_AWS_41: the machines need no rights in the account, so they have no role")
      .set("for_each", "local.nodes")
      .set("ami", by_path ? "nonsensitive(data.aws_ssm_parameter.image.value)" : hcl_text(image))
      .set("instance_type", "each.value.size")
      .set("placement_group", "each.value.placed ? aws_placement_group.cluster.name : null")
      .flag("ebs_optimized", true)
      .text("instance_initiated_shutdown_behavior", options.cluster.lifetime_hours > 0 ? "terminate" : "stop")
      .set("user_data_base64", "base64gzip(file(\"${path.module}/cloud-init/node.yaml\"))")
      .set("tags", tags_with_name("each.key"))
      .set("volume_tags", tags_with_name("each.key"));
  Hcl from("launch_template");
  from.set("id", "aws_launch_template.node[each.key].id")
      .set("version", "aws_launch_template.node[each.key].latest_version");
  Hcl metadata("metadata_options");
  metadata.text("http_endpoint", "enabled").text("http_tokens", "required").set("http_put_response_hop_limit", "1");
  Hcl disk("root_block_device");
  disk.set("volume_size", std::to_string(options.node.disk_gb))
      .text("volume_type", "gp3")
      .flag("encrypted", true)
      .flag("delete_on_termination", true);
  machine.block(from).block(metadata).block(disk);
  if (options.node.spot) {
    Hcl market("dynamic", {"instance_market_options"}), content("content"), spot("spot_options");
    spot.text("spot_instance_type", "one-time");
    content.text("market_type", "spot").block(spot);
    market.set("for_each", "each.value.spot ? [1] : []").block(content);
    machine.block(market);
  }
  Hcl cycle("lifecycle");
  cycle.comment("A newer image or a changed document must not replace machines that work.")
      .set("ignore_changes", "[ami, user_data_base64]");
  machine.block(cycle);
  std::vector<std::string> before = {"aws_route.out", "aws_route_table_association.nodes"};
  if (options.storage.kind == StorageChoice::provider) before.emplace_back("aws_efs_mount_target.shared");
  if (any_own_card) before.emplace_back("aws_eip.node");
  machine.set("depends_on", hcl_list(before));
  return text + machine.str();
}

std::string outputs(const Cluster& cluster) {
  const bool any_own_card =
      std::ranges::any_of(cluster.nodes, [&](const Node& node) { return has_own_card(cluster.options, node); });
  const std::string address = any_own_card
                                  ? "local.nodes[name].own_card ? aws_eip.node[name].public_ip : machine.public_ip"
                                  : "machine.public_ip";
  Hcl addresses("output", {"addresses"});
  addresses.text("description", "public addresses of the machines that have one")
      .set("value", fmt::format("{{ for name, machine in aws_instance.node : name => {} if local.nodes[name].public }}",
                                address));
  Hcl zone("output", {"zone"});
  zone.text("description", "the zone of all machines").set("value", "aws_subnet.nodes.availability_zone");
  return addresses.str() + "\n" + zone.str();
}

}  // namespace

std::vector<PlanFile> aws_terraform(const Cluster& cluster) {
  const auto provider = provider_of(ProviderChoice::aws);
  const std::string document = cloud_init(cluster, nullptr, provider->shared_folder(cluster), provider->end(cluster));
  const bool shares = cluster.options.storage.kind == StorageChoice::provider;
  return {
      {"versions.tf", versions(cluster), false},
      {"variables.tf", terraform_sources(cluster), false},
      {"network.tf", network(cluster) + (shares ? "\n" + joined(blocks_of(cluster, aws_storage(cluster))) : ""), false},
      {"nodes.tf", nodes(cluster), false},
      {"outputs.tf", outputs(cluster), false},
      {"cloud-init/node.yaml", document, false}};
}

}  // namespace trireme::cloud
