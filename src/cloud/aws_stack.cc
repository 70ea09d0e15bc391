#include "cloud/aws_stack.h"

#include <fmt/format.h>

#include "cloud/node_types.h"
#include "cloud/user_data.h"
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

/// If every machine has a public address, traffic leaves through the internet gateway.
constexpr const char* kRouteOut =
    "  RouteOut:\n"
    "    Type: AWS::EC2::Route\n"
    "    DependsOn: GatewayOfNetwork\n"
    "    Properties: {RouteTableId: !Ref Routes, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref Gateway}\n";

/// If only the head has one, traffic leaves through a NAT gateway in its own subnet. All nodes stay in one subnet, as
/// the fabric adapter requires, so answers of the head's ssh have a separate route to each of the caller's networks.
std::string nat_routes(const Cluster& cluster) {
  const std::string tags = tag_lines(cluster, cluster.name() + "-nat", 8);
  std::string text = fmt::format(
      "  RangeOfNat:\n"
      "    Type: AWS::EC2::VPCCidrBlock\n"
      "    Properties: {{VpcId: !Ref Network, CidrBlock: {0}}}\n"
      "  SubnetOfNat:\n"
      "    Type: AWS::EC2::Subnet\n"
      "    DependsOn: RangeOfNat\n"
      "    Properties:\n"
      "      VpcId: !Ref Network\n"
      "      CidrBlock: {0}\n"
      "      AvailabilityZone: !GetAtt Subnet.AvailabilityZone\n"
      "      Tags:\n{1}"
      "  RoutesOfNat:\n"
      "    Type: AWS::EC2::RouteTable\n"
      "    Properties:\n"
      "      VpcId: !Ref Network\n"
      "      Tags:\n{1}"
      "  RouteOutOfNat:\n"
      "    Type: AWS::EC2::Route\n"
      "    DependsOn: GatewayOfNetwork\n"
      "    Properties: {{RouteTableId: !Ref RoutesOfNat, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref Gateway}}\n"
      "  RoutesOfSubnetOfNat:\n"
      "    Type: AWS::EC2::SubnetRouteTableAssociation\n"
      "    Properties: {{SubnetId: !Ref SubnetOfNat, RouteTableId: !Ref RoutesOfNat}}\n"
      "  AddressOfNat:\n"
      "    Type: AWS::EC2::EIP\n"
      "    DependsOn: GatewayOfNetwork\n"
      "    Properties:\n"
      "      Domain: vpc\n"
      "      Tags:\n{1}"
      "  Nat:\n"
      "    Type: AWS::EC2::NatGateway\n"
      "    DependsOn: [RouteOutOfNat, RoutesOfSubnetOfNat]\n"
      "    Properties:\n"
      "      AllocationId: !GetAtt AddressOfNat.AllocationId\n"
      "      SubnetId: !Ref SubnetOfNat\n"
      "      Tags:\n{1}"
      "  RouteOut:\n"
      "    Type: AWS::EC2::Route\n"
      "    Properties: {{RouteTableId: !Ref Routes, DestinationCidrBlock: 0.0.0.0/0, NatGatewayId: !Ref Nat}}\n",
      kAwsNatRange, tags);
  for (size_t i = 0; i < cluster.sources.size(); ++i) {
    text += fmt::format(
        "  RouteToCaller{}:\n"
        "    Type: AWS::EC2::Route\n"
        "    DependsOn: GatewayOfNetwork\n"
        "    Properties: {{RouteTableId: !Ref Routes, DestinationCidrBlock: {}, GatewayId: !Ref Gateway}}\n",
        i + 1, cluster.sources[i]);
  }
  return text;
}

std::string network(const Cluster& cluster) {
  const std::string& range = cluster.options.network.range;
  const std::string tags = tag_lines(cluster, cluster.name(), 8);
  std::string ssh;
  for (const std::string& source : cluster.sources) {
    ssh += fmt::format(
        "        - {{IpProtocol: tcp, FromPort: 22, ToPort: 22, CidrIp: \"{}\", Description: ssh of the caller}}\n",
        source);
  }
  return fmt::format(
      "  Network:\n"
      "    Type: AWS::EC2::VPC\n"
      "    Properties:\n"
      "      CidrBlock: {0}\n"
      "      EnableDnsSupport: true\n"
      "      EnableDnsHostnames: true\n"
      "      Tags:\n{1}"
      "  Gateway:\n"
      "    Type: AWS::EC2::InternetGateway\n"
      "    Properties:\n"
      "      Tags:\n{1}"
      "  GatewayOfNetwork:\n"
      "    Type: AWS::EC2::VPCGatewayAttachment\n"
      "    Properties: {{VpcId: !Ref Network, InternetGatewayId: !Ref Gateway}}\n"
      "  Routes:\n"
      "    Type: AWS::EC2::RouteTable\n"
      "    Properties:\n"
      "      VpcId: !Ref Network\n"
      "      Tags:\n{1}"
      "{4}"
      "  Subnet:\n"
      "    Type: AWS::EC2::Subnet\n"
      "    Properties:\n"
      "      VpcId: !Ref Network\n"
      "      CidrBlock: {0}\n"
      "{3}"
      "      Tags:\n{1}"
      "  RoutesOfSubnet:\n"
      "    Type: AWS::EC2::SubnetRouteTableAssociation\n"
      "    Properties: {{SubnetId: !Ref Subnet, RouteTableId: !Ref Routes}}\n"
      "  Firewall:\n"
      "    Type: AWS::EC2::SecurityGroup\n"
      "    Properties:\n"
      "      GroupDescription: ssh from the caller, everything among the nodes\n"
      "      VpcId: !Ref Network\n"
      "      SecurityGroupIngress:\n{2}"
      "      SecurityGroupEgress:\n"
      "        - {{IpProtocol: \"-1\", CidrIp: 0.0.0.0/0, Description: packages and models}}\n"
      "      Tags:\n{1}  # The fabric adapter needs a group that is open to itself in both directions.\n"
      "  FromEachOther:\n"
      "    Type: AWS::EC2::SecurityGroupIngress\n"
      "    Properties: {{GroupId: !GetAtt Firewall.GroupId, IpProtocol: \"-1\", SourceSecurityGroupId: !GetAtt "
      "Firewall.GroupId}}\n"
      "  ToEachOther:\n"
      "    Type: AWS::EC2::SecurityGroupEgress\n"
      "    Properties: {{GroupId: !GetAtt Firewall.GroupId, IpProtocol: \"-1\", DestinationSecurityGroupId: !GetAtt "
      "Firewall.GroupId}}\n",
      range, tags, ssh,
      cluster.pin("zone").empty() ? "" : fmt::format("      AvailabilityZone: {}\n", cluster.pin("zone")),
      needs_nat_gateway(cluster) ? nat_routes(cluster) : kRouteOut);
}

std::string storage(const Cluster& cluster) {
  return fmt::format(
      "  Storage:\n"
      "    Type: AWS::EFS::FileSystem\n"
      "    DeletionPolicy: Delete\n"
      "    UpdateReplacePolicy: Delete\n"
      "    Properties:\n"
      "      Encrypted: true\n"
      "      ThroughputMode: elastic\n"
      "      FileSystemTags:\n{}"
      "  StorageTarget:\n"
      "    Type: AWS::EFS::MountTarget\n"
      "    Properties:\n"
      "      FileSystemId: !Ref Storage\n"
      "      SubnetId: !Ref Subnet\n"
      "      IpAddress: {}\n"
      "      SecurityGroups: [!GetAtt Firewall.GroupId]\n",
      tag_lines(cluster, cluster.name(), 8), storage_address(cluster.options));
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
  const std::string& type = node.is_head() ? type_of_head(options) : type_of_nodes(options);
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
  const std::string type = node.is_head() ? type_of_head(options) : type_of_nodes(options);
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
  bool any_placed = false;
  for (const Node& node : cluster.nodes) {
    any_placed = any_placed || is_placed_on_aws(node.is_head() ? type_of_head(options) : type_of_nodes(options));
  }
  if (any_placed) {
    text +=
        "  Placement:\n"
        "    Type: AWS::EC2::PlacementGroup\n"
        "    Properties:\n"
        "      Strategy: cluster\n"
        "      Tags:\n" +
        tag_lines(cluster, cluster.name(), 8);
  }
  if (options.storage.kind == StorageChoice::provider) text += storage(cluster);
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
