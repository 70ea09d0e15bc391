// The output of `plan`, against files that were checked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <regex>

#include "base/error.h"
#include "base/file.h"
#include "cloud/node_files.h"
#include "cloud/provider.h"
#include "tests/support/paths.h"

namespace trireme::cloud {
namespace {

using testing::HasSubstr;
using testing::Not;

class Plan : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "trireme-plan-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    key_ = folder_ + "/key.pub";
    write_text(key_, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheTests you@here\n");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::map<std::string, std::string> plan(const std::string& text) {
    const ClusterOptions options =
        parse_options(text + "access: {from: 198.51.100.7/32, key: " + key_ + "}\n", "c.yaml");
    std::map<std::string, std::string> files;
    for (const PlanFile& file : provider_of(options.cluster.provider)->plan(lay_out(options)))
      files[file.path] = file.text;
    return files;
  }

  /// Compares, and leaves the output beside the binary if it differs.
  static void expect_golden(const std::string& name, const std::string& found) {
    const std::string path = source_dir() + "/tests/golden/cluster/" + name;
    const std::string expected = std::filesystem::exists(path) ? read_text(path) : "";
    if (expected != found) write_text(testing::TempDir() + name, found);
    EXPECT_EQ(expected, found) << "found: " << testing::TempDir() << name;
  }

  std::string folder_, key_;
};

TEST_F(Plan, AzureWithPlainNetwork) {
  const auto files =
      plan("cluster: {provider: azure, name: sea, nodes: 2, tags: owner=you}\nnetwork: {region: eastus}\n");
  expect_golden("azure.sh", files.at("commands.sh"));
  EXPECT_EQ(files.at("key.pub"), "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheTests you@here\n");
}

TEST_F(Plan, AzureWithInfiniBandStorageAndAnEnd) {
  const auto files = plan(
      "cluster: {provider: azure, name: sea, nodes: 2, lifetime-hours: 8}\n"
      "network: {region: eastus, public-addresses: all}\n"
      "node: {type: Standard_HB120rs_v3}\nstorage: {kind: provider, gb: 256}\n");
  expect_golden("azure-infiniband.sh", files.at("commands.sh"));
  const std::string& document = files.at("cloud-init/node.yaml");
  EXPECT_THAT(document, HasSubstr("TRIREME_END=trireme-sea\n      TRIREME_END_MINUTES=480\n"));
  EXPECT_THAT(document,
              testing::ContainsRegex("TRIREME_STORAGE_SOURCE=trireme[0-9a-f]{12}.file.core.windows.net:/trireme"));
}

TEST_F(Plan, AwsWithElasticFabricAdapter) {
  auto files = plan(
      "cluster: {provider: aws, name: sea, nodes: 2, lifetime-hours: 8}\n"
      "network: {region: us-east-1, public-addresses: all}\n"
      "node: {type: hpc7a.96xlarge, head-type: c7i.large, spot: true}\nstorage: {kind: provider}\n");
  // Two versions of zlib may pack differently.
  const std::regex data("UserData: [A-Za-z0-9+/=]{1000,}");
  expect_golden("aws.yaml", std::regex_replace(files.at("stack.yaml"), data, "UserData: PACKED"));
  EXPECT_LT(files.at("stack.yaml").size(), 51200U) << "what CloudFormation takes without a bucket";
}

TEST_F(Plan, OnlyTheHeadHasAPublicAddressUnlessAllShall) {
  const std::string azure_file = "cluster: {provider: azure, name: sea, nodes: 3}\nnetwork: {region: eastus";
  const std::string azure = plan(azure_file + "}\n").at("commands.sh");
  EXPECT_EQ(azure, plan(azure_file + ", public-addresses: head}\n").at("commands.sh"));
  EXPECT_THAT(azure, HasSubstr("az network public-ip create --resource-group trireme-sea --name sea-1-ip "));
  EXPECT_THAT(azure, HasSubstr("--private-ip-address 10.60.0.4 --public-ip-address sea-1-ip --accelerated-networking"));
  EXPECT_THAT(azure, HasSubstr("--private-ip-address 10.60.0.5 --accelerated-networking"));
  EXPECT_THAT(azure, Not(HasSubstr("sea-2-ip")));
  const size_t gateway = azure.find("az network nat gateway create --resource-group trireme-sea --name sea-nat ");
  const size_t joined = azure.find(
      "az network vnet subnet update --resource-group trireme-sea --name nodes "
      "--vnet-name sea-vnet --nat-gateway sea-nat");
  EXPECT_LT(gateway, joined);
  EXPECT_LT(joined, azure.find("az vm create")) << "machines install packages at their first start";

  const std::string aws_file =
      "cluster: {provider: aws, name: sea, nodes: 3}\nnode: {type: hpc7a.96xlarge, head-type: c7i.large}\n"
      "network: {region: us-east-2";
  const std::string aws = plan(aws_file + "}\n").at("stack.yaml");
  EXPECT_EQ(aws, plan(aws_file + ", public-addresses: head}\n").at("stack.yaml"));
  EXPECT_THAT(aws, HasSubstr("AssociatePublicIpAddress: true\n            DeleteOnTermination: true\n"
                             "            PrivateIpAddress: 10.60.0.4\n"));
  EXPECT_THAT(aws,
              HasSubstr("          - DeviceIndex: 0\n            InterfaceType: efa\n            NetworkCardIndex: 0\n"
                        "            DeleteOnTermination: true\n            PrivateIpAddress: 10.60.0.5\n"));
  EXPECT_THAT(aws, Not(HasSubstr("Node2Address")));
  EXPECT_THAT(aws, HasSubstr("{RouteTableId: !Ref Routes, DestinationCidrBlock: 0.0.0.0/0, NatGatewayId: !Ref Nat}"));
  EXPECT_THAT(aws, HasSubstr("{RouteTableId: !Ref Routes, DestinationCidrBlock: 198.51.100.7/32, GatewayId: !Ref "
                             "Gateway}"))
      << "answers of the head's ssh go out where its address is";

  const std::string all_of_azure = plan(azure_file + ", public-addresses: all}\n").at("commands.sh");
  EXPECT_THAT(all_of_azure, HasSubstr("--name sea-3-ip "));
  EXPECT_THAT(all_of_azure, Not(HasSubstr("az network nat")));
  const std::string all_of_aws = plan(aws_file + ", public-addresses: all}\n").at("stack.yaml");
  EXPECT_THAT(all_of_aws, HasSubstr("Node3AddressOfCard"));
  EXPECT_THAT(all_of_aws, Not(HasSubstr("AWS::EC2::NatGateway")));
}

TEST_F(Plan, AHeadAloneHasNoNatGateway) {
  EXPECT_THAT(plan("cluster: {provider: azure, nodes: 1}\nnetwork: {region: eastus}\n").at("commands.sh"),
              Not(HasSubstr("az network nat")));
  const std::string stack = plan("cluster: {provider: aws, nodes: 1}\nnetwork: {region: us-east-2}\n").at("stack.yaml");
  EXPECT_THAT(stack, Not(HasSubstr("NatGateway")));
  EXPECT_THAT(stack,
              HasSubstr("{RouteTableId: !Ref Routes, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref Gateway}"));
}

TEST_F(Plan, AStackOfTheMostMachinesStaysSmallEnoughForEc2) {
  const auto files = plan("cluster: {provider: aws, nodes: 40}\nnetwork: {region: us-east-1}\n");
  const std::string packed = packed_user_data(files.at("cloud-init/node.yaml"));
  EXPECT_LT(packed.size() / 4 * 3, 16384U) << "EC2's bound of user data";
}

TEST_F(Plan, HostsHaveADocumentEach) {
  const auto files = plan("cluster: {nodes: 2, name: sea, scheduler: slurm}\nhosts: {list: \"10.0.0.[1-2]\"}\n");
  expect_golden("hosts.env", files.at("env/sea-2.env"));
  EXPECT_EQ(files.at("trireme-node"), node_setup_script());
  EXPECT_THAT(files.at("cloud-init/sea-1.yaml"), HasSubstr("      TRIREME_NODE=sea-1\n"));
}

TEST_F(Plan, CycleCloudDeclaresWhatItUsesAndUsesWhatItDeclares) {
  write_text(folder_ + "/trireme_1_amd64.deb", "a package");
  const auto files = plan(
      "cluster: {provider: azure, name: sea, scheduler: cyclecloud}\nnetwork: {region: eastus}\nsoftware: {package: " +
      folder_ + "/trireme_1_amd64.deb}\n");
  const std::string& text = files.at("cyclecloud/templates/trireme.txt");
  expect_golden("cyclecloud.txt", text);
  expect_golden("cyclecloud.sh", files.at("commands.sh"));
  const auto words_of = [](const std::string& in, const char* pattern) {
    std::set<std::string> words;
    const std::regex form(pattern);
    for (std::sregex_iterator at(in.begin(), in.end(), form), end; at != end; ++at) words.insert((*at)[1]);
    return words;
  };
  const std::set<std::string> declared = words_of(text, R"(\[\[\[parameter (\w+)\]\]\])");
  EXPECT_EQ(words_of(text, R"(\$(\w+))"), declared);
  std::set<std::string> given = words_of(files.at("cyclecloud/parameters.json"), "\n  \"(\\w+)\":");
  given.insert({"Credentials", "SubnetId"});
  EXPECT_EQ(given, declared);
  EXPECT_EQ(files.at("cyclecloud/specs/default/cluster-init/files/trireme_1_amd64.deb"), "a package");
  EXPECT_THAT(files.at("cyclecloud/specs/default/cluster-init/scripts/010-trireme.sh"),
              HasSubstr("files/trireme_1_amd64.deb\n"));
  for (const auto& [path, content] : files) {
    EXPECT_TRUE(std::ranges::all_of(content, [](char c) { return static_cast<unsigned char>(c) < 128; })) << path;
  }
}

TEST_F(Plan, AnotherKeyIsAnotherRun) {
  const std::string options = "cluster: {provider: azure, name: sea}\nnetwork: {region: eastus}\n";
  const std::string before = plan(options).at("commands.sh");
  write_text(key_, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfSomebody them@there\n");
  const std::string after = plan(options).at("commands.sh");
  const std::regex run("trireme-run=([0-9a-f]{12})");
  std::smatch one, other;
  ASSERT_TRUE(std::regex_search(before, one, run) && std::regex_search(after, other, run));
  EXPECT_NE(one[1], other[1]);
}

TEST_F(Plan, OnlyThePublicHalfOfAKeyIsTaken) {
  const auto message = [&](const std::string& text) -> std::string {
    write_text(key_, text);
    try {
      plan("cluster: {provider: azure}\nnetwork: {region: e}\n");
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(message("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n"),
              testing::AllOf(HasSubstr("is a private key, which must not be copied"), Not(HasSubstr("hunter2"))));
  EXPECT_THAT(message("hello\n"), HasSubstr("has no public ssh key; expected one line"));
}

}  // namespace
}  // namespace trireme::cloud
