#include "cloud/aws_stack.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cloud/aws_resources.h"
#include "cloud/node_types.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

constexpr const char* kUbuntu = "/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id";
/// With NVIDIA's driver, CUDA, NCCL and the adapter's own library.
constexpr const char* kUbuntuWithDriver =
    "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id";

/// "- {Key: ..., Value: ...}" lines, each indented.
std::string tag_lines(const Cluster& cluster, const std::string& name, size_t blanks) {
  std::string lines = fmt::format("- {{Key: Name, Value: \"{}\"}}\n", name);
  for (const auto& [key, value] : tags_of(cluster))
    lines += fmt::format("- {{Key: \"{}\", Value: \"{}\"}}\n", key, value);
  return indented(lines, blanks);
}

/// Resources of both languages. The properties of one without tags are on one line if that is short.
std::string lines_of(const Cluster& cluster, const std::vector<AwsResource>& resources) {
  std::string text;
  for (const AwsResource& one : resources) {
    if (one.stack.empty()) continue;
    const size_t blank = one.stack.find(' ');
    text += fmt::format("  {}:\n    Type: AWS::{}\n", one.stack.substr(0, blank), one.stack.substr(blank + 1));
    if (!one.stack_attributes.empty()) text += fmt::format("    {}\n", one.stack_attributes);
    std::vector<std::string> properties;
    for (const auto& [name, value] : one.properties) {
      if (!value.stack.empty()) properties.push_back(fmt::format("{}: {}", name, value.stack));
    }
    if (!one.tag_name.empty())
      properties.push_back(fmt::format("{}:\n{}", one.tags, tag_lines(cluster, one.tag_name, 8)));
    const bool in_lines = !one.tag_name.empty() || properties.size() > 3;
    if (!in_lines) text += fmt::format("    Properties: {{{}}}\n", fmt::join(properties, ", "));
    if (in_lines) text += fmt::format("    Properties:\n      {}\n", fmt::join(properties, "\n      "));
    if (!one.tag_name.empty()) text.pop_back();
  }
  return text;
}

std::string network(const Cluster& cluster) {
  const bool nat = needs_nat_gateway(cluster);
  std::string text = lines_of(cluster, aws_network(cluster)) + lines_of(cluster, aws_way_out(cluster));
  for (size_t i = 0; nat && i < cluster.sources.size(); ++i) {
    text += fmt::format(
        "  RouteToCaller{}:\n"
        "    Type: AWS::EC2::Route\n"
        "    DependsOn: GatewayOfNetwork\n"
        "    Properties: {{RouteTableId: !Ref Routes, DestinationCidrBlock: {}, GatewayId: !Ref Gateway}}\n",
        i + 1, cluster.sources[i]);
  }
  std::string ssh;
  for (const std::string& source : cluster.sources) {
    ssh += fmt::format(
        "        - {{IpProtocol: tcp, FromPort: 22, ToPort: 22, CidrIp: \"{}\", Description: ssh of the caller}}\n",
        source);
  }
  return text + lines_of(cluster, aws_subnet(cluster)) +
         fmt::format(
             "  Firewall:\n"
             "    Type: AWS::EC2::SecurityGroup\n"
             "    Properties:\n"
             "      GroupDescription: ssh from the caller, everything among the nodes\n"
             "      VpcId: !Ref Network\n"
             "      SecurityGroupIngress:\n{0}"
             "      SecurityGroupEgress:\n"
             "        - {{IpProtocol: \"-1\", CidrIp: 0.0.0.0/0, Description: packages and models}}\n"
             "      Tags:\n{1}  # The fabric adapter needs a group that is open to itself in both directions.\n"
             "  FromEachOther:\n"
             "    Type: AWS::EC2::SecurityGroupIngress\n"
             "    Properties: {{GroupId: !GetAtt Firewall.GroupId, IpProtocol: \"-1\", SourceSecurityGroupId: !GetAtt "
             "Firewall.GroupId}}\n"
             "  ToEachOther:\n"
             "    Type: AWS::EC2::SecurityGroupEgress\n"
             "    Properties: {{GroupId: !GetAtt Firewall.GroupId, IpProtocol: \"-1\", DestinationSecurityGroupId: "
             "!GetAtt "
             "Firewall.GroupId}}\n",
             ssh, tag_lines(cluster, cluster.name(), 8));
}

/// Network interfaces of a launch template. EC2 gives no public address to a machine that starts with several: these
/// have a first card and a separate address.
std::string interfaces(const Node& node, const AwsCards& network, bool is_public) {
  const int cards = network.cards;
  const char* efa = network.fast ? "            InterfaceType: efa\n" : "";
  std::string text = fmt::format(
      "          - DeviceIndex: 0\n"
      "            NetworkCardIndex: 0\n"
      "            NetworkInterfaceId: !Ref Node{}Card\n",
      node.index);
  if (cards == 1 || !is_public) {
    const char* addressed =
        is_public ? "            AssociatePublicIpAddress: true\n" : "            AssociatePublicIpAddress: false\n";
    text = fmt::format(
        "          - DeviceIndex: 0\n"
        "{}{}"
        "            DeleteOnTermination: true\n"
        "            PrivateIpAddress: {}\n"
        "            SubnetId: !Ref Subnet\n"
        "            Groups: [!GetAtt Firewall.GroupId]\n",
        efa, cards == 1 ? addressed : "            NetworkCardIndex: 0\n", node.address);
  }
  for (int card = 1; card < cards; ++card) {
    text += fmt::format(
        "          - DeviceIndex: 1\n"
        "            NetworkCardIndex: {}\n"
        "            InterfaceType: {}\n"
        "            DeleteOnTermination: true\n"
        "            SubnetId: !Ref Subnet\n"
        "            Groups: [!GetAtt Firewall.GroupId]\n",
        card, network.interface_type(card));
  }
  return text;
}

/// The first card of a machine with several, and its public address.
std::string card_and_address(const Cluster& cluster, const Node& node) {
  return fmt::format(
      "  Node{0}Card:\n"
      "    Type: AWS::EC2::NetworkInterface\n"
      "    Properties:\n"
      "      InterfaceType: efa\n"
      "      PrivateIpAddress: {1}\n"
      "      SubnetId: !Ref Subnet\n"
      "      GroupSet: [!GetAtt Firewall.GroupId]\n"
      "      Tags:\n{2}"
      "  Node{0}Address:\n"
      "    Type: AWS::EC2::EIP\n"
      "    DependsOn: GatewayOfNetwork\n"
      "    Properties:\n"
      "      Domain: vpc\n"
      "      Tags:\n{2}"
      "  Node{0}AddressOfCard:\n"
      "    Type: AWS::EC2::EIPAssociation\n"
      "    Properties: {{AllocationId: !GetAtt Node{0}Address.AllocationId, NetworkInterfaceId: !Ref Node{0}Card}}\n",
      node.index, node.address, tag_lines(cluster, node.name, 8));
}

std::string machine(const Cluster& cluster, const Node& node) {
  const ClusterOptions& options = cluster.options;
  const std::string& type = type_of(options, node);
  const AwsCards network = aws_cards(options, node);
  const std::string tags = tag_lines(cluster, node.name, 8);
  const bool is_public = has_public_address(options, node), own_address = is_public && network.cards > 1;
  std::string text = own_address ? card_and_address(cluster, node) : "";
  text += fmt::format(
      "  Node{0}Launch:\n"
      "    Type: AWS::EC2::LaunchTemplate\n"
      "    Properties:\n"
      "      LaunchTemplateData:\n"
      "        MetadataOptions: {{HttpTokens: required}}\n"
      "        NetworkInterfaces:\n"
      "{1}"
      "{2}"
      "      TagSpecifications:\n"
      "        - ResourceType: launch-template\n"
      "          Tags:\n{3}",
      node.index, interfaces(node, network, is_public),
      options.node.spot && !node.is_head()
          ? "        InstanceMarketOptions: {MarketType: spot, SpotOptions: {SpotInstanceType: one-time}}\n"
          : "",
      tag_lines(cluster, node.name, 12));
  text += fmt::format(
      "  Node{0}:\n"
      "    Type: AWS::EC2::Instance\n"
      "    DependsOn: [RouteOut, RoutesOfSubnet{1}]\n"
      "    Properties:\n"
      "      ImageId: !Ref Image\n"
      "      InstanceType: {2}\n"
      "      LaunchTemplate: {{LaunchTemplateId: !Ref Node{0}Launch, Version: !GetAtt "
      "Node{0}Launch.LatestVersionNumber}}\n"
      "{3}"
      "{4}"
      "      BlockDeviceMappings:\n"
      "        - DeviceName: {7}\n"
      "          Ebs: {{VolumeSize: {5}, VolumeType: gp3, Encrypted: true, DeleteOnTermination: true}}\n"
      "      UserData: !FindInMap [Machine, Document, UserData]\n"
      "      Tags:\n{6}",
      node.index,
      (options.storage.kind == StorageChoice::provider ? ", StorageTarget" : "") +
          (own_address ? fmt::format(", Node{}AddressOfCard", node.index) : ""),
      type, is_placed_on_aws(type) ? "      PlacementGroupName: !Ref Placement\n" : "",
      options.cluster.lifetime_hours > 0 ? "      InstanceInitiatedShutdownBehavior: terminate\n" : "",
      options.node.disk_gb, tags, aws_root_device(cluster));
  return text;
}

}  // namespace

std::string aws_image(const ClusterOptions& options) {
  if (!options.node.image.empty()) return options.node.image;
  return has_gpus(options) ? kUbuntuWithDriver : kUbuntu;
}

std::string aws_root_device(const Cluster& cluster) {
  if (!cluster.pin("root-device").empty()) return cluster.pin("root-device");
  return aws_image(cluster.options).find("debian") != std::string::npos ? "/dev/xvda" : "/dev/sda1";
}

bool is_placed_on_aws(const std::string& type) { return !type.starts_with("t"); }

AwsCards aws_cards(const ClusterOptions& options, const Node& node) {
  const std::string type = type_of(options, node);
  const NodeType* known = find_node_type(ProviderChoice::aws, type);
  const bool fast =
      uses_fast_network(options) && (known == nullptr ? is_placed_on_aws(type) : known->fast);  // burstable: none
  return {fast, fast ? network_cards(type) : 1};
}

std::string aws_stack_name(const Cluster& cluster) { return "trireme-" + cluster.name(); }

std::string aws_stack(const Cluster& cluster, const SharedFolder& shared, const End& end) {
  const ClusterOptions& options = cluster.options;
  const std::string image = cluster.pin("image").empty() ? aws_image(options) : cluster.pin("image");
  const bool by_path = image.starts_with('/');
  std::string text = fmt::format(
      "# The cluster {0} on AWS; made by `trireme cluster plan`.\n"
      "AWSTemplateFormatVersion: \"2010-09-09\"\n"
      "Description: The cluster {0}, made by trireme cluster\n"
      "Parameters:\n"
      "  Image:\n"
      "    Type: {1}\n"
      "    Default: {2}\n"
      "Mappings:\n"
      "  Machine:\n"
      "    Document:\n"
      "      # gzip and base64 of cloud-init/node.yaml\n"
      "      UserData: {3}\n"
      "Resources:\n",
      cluster.name(), by_path ? "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>" : "AWS::EC2::Image::Id", image,
      packed_user_data(cloud_init(cluster, nullptr, shared, end)));
  text += network(cluster);
  const bool any_placed =
      std::ranges::any_of(cluster.nodes, [&](const Node& node) { return is_placed_on_aws(type_of(options, node)); });
  if (any_placed) text += lines_of(cluster, aws_placement(cluster));
  if (options.storage.kind == StorageChoice::provider) text += lines_of(cluster, aws_storage(cluster));
  for (const Node& node : cluster.nodes) text += machine(cluster, node);
  return text;
}

std::vector<std::string> aws_stack_words(const Cluster& cluster, const std::string& action, const std::string& folder) {
  std::vector<std::string> words = {"aws",
                                    "cloudformation",
                                    action,
                                    "--region",
                                    cluster.options.network.region,
                                    "--stack-name",
                                    aws_stack_name(cluster),
                                    "--template-body",
                                    "file://" + folder + "stack.yaml"};
  if (action == "create-stack") words.insert(words.end(), {"--on-failure", "DO_NOTHING"});
  words.emplace_back("--tags");
  for (const auto& [key, value] : tags_of(cluster)) words.push_back("Key=" + key + ",Value=" + value);
  return words;
}

std::string aws_script(const Cluster& cluster) {
  return fmt::format(
      "#!/usr/bin/env bash\n"
      "# The cluster {} on AWS: what `trireme cluster create` runs. Run `aws configure` or `aws sso login` before.\n"
      "set -euo pipefail\n"
      "cd \"$(dirname \"$0\")\"\n\n"
      "{}\n"
      "aws cloudformation wait stack-create-complete --region {} --stack-name {}\n",
      cluster.name(), shell_join(aws_stack_words(cluster, "create-stack", "")), cluster.options.network.region,
      aws_stack_name(cluster));
}

}  // namespace trireme::cloud
