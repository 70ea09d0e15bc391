#include "cloud/aws_resources.h"

#include "cloud/aws_stack.h"
#include "cloud/hcl.h"

namespace trireme::cloud {
namespace {

AwsValue text(const std::string& value) { return {value, hcl_text(value)}; }
const AwsValue kYes = {"true", "true"};
const AwsValue kNetwork = {"!Ref Network", "aws_vpc.cluster.id"};
const AwsValue kGateway = {"!Ref Gateway", "aws_internet_gateway.cluster.id"};
const AwsValue kRoutes = {"!Ref Routes", "aws_route_table.nodes.id"};
const AwsValue kSubnet = {"!Ref Subnet", "aws_subnet.nodes.id"};
const AwsValue kFirewall = {"[!GetAtt Firewall.GroupId]", "[aws_security_group.cluster.id]"};

constexpr const char* kGatewayOfNetwork = "GatewayOfNetwork";

using Properties = std::vector<std::pair<const char*, AwsValue>>;
AwsResource both(const char* stack, const char* terraform, const Properties& properties) {
  return {stack, terraform, properties};
}
AwsResource route_out(const char* name, const char* label, const AwsValue& table, const AwsValue& gateway,
                      const char* kind) {
  return both(name, label, {{"RouteTableId", table}, {"DestinationCidrBlock", text("0.0.0.0/0")}, {kind, gateway}});
}
AwsResource route_table(const char* name, const char* label, const std::string& tag) {
  return both(name, label, {{"VpcId", kNetwork}}).tagged(tag);
}

}  // namespace

std::vector<AwsResource> aws_network(const Cluster& cluster) {
  const AwsValue range = text(cluster.options.network.range);
  AwsResource network = both("Network EC2::VPC", "aws_vpc.cluster",
                             {{"CidrBlock", range}, {"EnableDnsSupport", kYes}, {"EnableDnsHostnames", kYes}});
  network.comment =
      "checkov:skip=CKV2_AWS_11: flow logs cost money and the cluster has one user; add aws_flow_log if you keep them";
  AwsResource closed = both("", "aws_default_security_group.closed", {{"VpcId", kNetwork}});
  closed.comment = "The default group of the network is not used: it allows no traffic.";
  const Properties of_gateway = {{"VpcId", {"", kNetwork.terraform}}};
  return {
      network.tagged(cluster.name()), closed,
      both("Gateway EC2::InternetGateway", "aws_internet_gateway.cluster", of_gateway).tagged(cluster.name()),
      both("GatewayOfNetwork EC2::VPCGatewayAttachment", "", {{"VpcId", kNetwork}, {"InternetGatewayId", kGateway}}),
      route_table("Routes EC2::RouteTable", "aws_route_table.nodes", cluster.name())};
}

std::vector<AwsResource> aws_subnet(const Cluster& cluster) {
  const AwsValue range = text(cluster.options.network.range), zone = {cluster.pin("zone"), "local.zone"};
  return {both("Subnet EC2::Subnet", "aws_subnet.nodes",
               {{"VpcId", kNetwork}, {"CidrBlock", range}, {"AvailabilityZone", zone}})
              .tagged(cluster.name()),
          both("RoutesOfSubnet EC2::SubnetRouteTableAssociation", "aws_route_table_association.nodes",
               {{"SubnetId", kSubnet}, {"RouteTableId", kRoutes}})};
}

std::vector<AwsResource> aws_way_out(const Cluster& cluster) {
  if (!needs_nat_gateway(cluster))
    return {
        route_out("RouteOut EC2::Route", "aws_route.out", kRoutes, kGateway, "GatewayId").depends(kGatewayOfNetwork)};
  const std::string name = cluster.name() + "-nat";
  const AwsValue range = text(kAwsNatRange), table = {"!Ref RoutesOfNat", "aws_route_table.nat.id"},
                 subnet = {"!Ref SubnetOfNat", "aws_subnet.nat.id"}, nat = {"!Ref Nat", "aws_nat_gateway.cluster.id"},
                 network = {kNetwork.stack, "aws_vpc_ipv4_cidr_block_association.nat.vpc_id"},
                 zone = {"!GetAtt Subnet.AvailabilityZone", "aws_subnet.nodes.availability_zone"},
                 address = {"!GetAtt AddressOfNat.AllocationId", "aws_eip.nat.id"};
  return {
      both("RangeOfNat EC2::VPCCidrBlock", "aws_vpc_ipv4_cidr_block_association.nat",
           {{"VpcId", kNetwork}, {"CidrBlock", range}}),
      both("SubnetOfNat EC2::Subnet", "aws_subnet.nat",
           {{"VpcId", network}, {"CidrBlock", range}, {"AvailabilityZone", zone}})
          .tagged(name)
          .depends("RangeOfNat"),
      route_table("RoutesOfNat EC2::RouteTable", "aws_route_table.nat", name),
      route_out("RouteOutOfNat EC2::Route", "aws_route.nat", table, kGateway, "GatewayId").depends(kGatewayOfNetwork),
      both("RoutesOfSubnetOfNat EC2::SubnetRouteTableAssociation", "aws_route_table_association.nat",
           {{"SubnetId", subnet}, {"RouteTableId", table}}),
      both("AddressOfNat EC2::EIP", "aws_eip.nat", {{"Domain", text("vpc")}})
          .tagged(name)
          .depends(kGatewayOfNetwork, "[aws_internet_gateway.cluster]"),
      both("Nat EC2::NatGateway", "aws_nat_gateway.cluster", {{"AllocationId", address}, {"SubnetId", subnet}})
          .tagged(name)
          .depends("[RouteOutOfNat, RoutesOfSubnetOfNat]", "[aws_route.nat, aws_route_table_association.nat]"),
      route_out("RouteOut EC2::Route", "aws_route.out", kRoutes, nat, "NatGatewayId")};
}

std::vector<AwsResource> aws_storage(const Cluster& cluster) {
  AwsResource system = both("Storage EFS::FileSystem", "aws_efs_file_system.shared",
                            {{"Encrypted", kYes}, {"ThroughputMode", text("elastic")}});
  system.tags = "FileSystemTags";
  system.stack_attributes = "DeletionPolicy: Delete\n    UpdateReplacePolicy: Delete";
  system.comment = "checkov:skip=CKV_AWS_184: encrypted with the account's key of EFS; a key of your own costs money";
  return {system.tagged(cluster.name()), both("StorageTarget EFS::MountTarget", "aws_efs_mount_target.shared",
                                              {{"FileSystemId", {"!Ref Storage", "aws_efs_file_system.shared.id"}},
                                               {"SubnetId", kSubnet},
                                               {"IpAddress", text(storage_address(cluster.options))},
                                               {"SecurityGroups", kFirewall}})};
}

std::vector<AwsResource> aws_placement(const Cluster& cluster) {
  const AwsValue name = {"", hcl_text(aws_stack_name(cluster))};
  return {both("Placement EC2::PlacementGroup", "aws_placement_group.cluster",
               {{"Name", name}, {"Strategy", text("cluster")}})
              .tagged(cluster.name())};
}

}  // namespace trireme::cloud
