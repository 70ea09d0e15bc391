#include "cloud/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "base/error.h"
#include "base/file.h"
#include "cloud/node_types.h"
#include "plan/node_type.h"
#include "tests/support/paths.h"

namespace trireme::cloud {
namespace {

using testing::HasSubstr;

const std::string kHosts = "cluster: {provider: hosts, nodes: 2}\nhosts: {list: [10.0.0.1, 10.0.0.2]}\n";
const std::string kAzure = "cluster: {provider: azure}\nnetwork: {region: eastus}\naccess: {from: 198.51.100.7/32}\n";

std::string message_of(const std::string& text) {
  try {
    parse_options(text, "c.yaml");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "no error";
}

TEST(ClusterOptions, AFileOfInitIsReadBackAsItWas) {
  for (const ProviderChoice provider : {ProviderChoice::azure, ProviderChoice::aws, ProviderChoice::hosts}) {
    ClusterOptions options;
    options.cluster.provider = provider;
    options.cluster.nodes = 4;
    options.network.region = provider == ProviderChoice::hosts ? "" : "somewhere";
    if (provider == ProviderChoice::hosts) options.hosts.list = "h[1-4]";
    const std::string text = options_file(options);
    EXPECT_EQ(options_file(parse_options(text, "c.yaml")), text);
    for (size_t at = 0, end; at < text.size(); at = end + 1) {
      end = text.find('\n', at);
      EXPECT_LE(end - at, 130U) << text.substr(at, end - at);
    }
  }
}

TEST(ClusterOptions, ListsMayBeWrittenAsListsOrWithCommas) {
  EXPECT_EQ(parse_options(kHosts, "c.yaml").hosts.list, "10.0.0.1,10.0.0.2");
  EXPECT_EQ(split_list(" a, b ,,c"), (std::vector<std::string>{"a", "b", "c"}));
}

TEST(ClusterOptions, ImpossibleOptionsAreNamedWithTheirPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"cluster: {nods: 3}\n", "c.yaml:1: unknown option \"cluster.nods\"; did you mean cluster.nodes?"},
      {"cluster: {nodes: many}\n", "c.yaml:1: cluster.nodes is \"many\", expected a whole number from 1 to 200"},
      {"cluster: {provider: gcp}\n", "expected one of azure, aws, hosts"},
      {kHosts + "storage: {kind: provider}\n", "storage.kind is provider, but provider hosts has no storage"},
      {"cluster: {nodes: 3}\nhosts: {list: \"h[1-2]\"}\n", "hosts.list has 2 machines, but cluster.nodes is 3"},
      {"cluster: {nodes: 2}\nhosts: {list: \"h1,h1\"}\n", "hosts.list has h1 twice"},
      {"cluster: {nodes: 1}\nhosts: {list: \"h1;reboot\"}\n", "which is not a name or address"},
      {"cluster: {name: Sea}\n", "cluster.name is \"Sea\", expected at most 24 lower-case letters"},
      {"cluster: {nodes: 1, accounting: true}\nhosts: {list: h1}\n",
       "cluster.accounting is true, but cluster.scheduler is none; only Slurm keeps accounts: set cluster.scheduler to "
       "slurm, or cluster.accounting to false"},
      {"cluster: {provider: aws}\n", "network.region is empty; aws needs one, such as us-east-1"},
      {kAzure + "storage: {kind: existing}\n", "new machines have no existing folder"},
      {"cluster: {provider: azure}\nnetwork: {region: e}\naccess: {from: 0.0.0.0/0}\n",
       "allows connections from the whole internet"},
      {"cluster: {provider: azure}\nnetwork: {region: e}\naccess: {from: 10.1.2.3/8}\n",
       "expected caller or networks such as"},
      {"cluster: {provider: azure}\nnetwork: {region: e}\naccess: {user: root}\n", "access.user is root"},
      {"cluster: {provider: azure, nodes: 30}\nnetwork: {region: e, range: 10.0.0.0/28}\n", "has room for 10 machines"},
      {"cluster: {provider: aws}\nnetwork: {region: e, range: 100.100.0.0/24}\n",
       "network.range 100.100.0.0/24 overlaps 100.64.0.0/10, which network.public-addresses head needs"},
      {"cluster: {provider: aws}\nnetwork: {region: e}\naccess: {from: '192.0.2.1/32, 198.51.100.7/32,192.0.2.1/32'}\n",
       "c.yaml: access.from has 192.0.2.1/32 twice"},
      {"cluster: {provider: aws}\nnetwork: {region: e}\naccess: {from: 10.60.0.128/25}\n",
       "access.from has 10.60.0.128/25, which is a part of network.range 10.60.0.0/24, the cluster itself"},
      {"cluster: {provider: azure, scheduler: cyclecloud, lifetime-hours: 8}\nnetwork: {region: e}\n",
       "cluster.lifetime-hours is 8, but CycleCloud decides when its machines end; remove the option, and end the "
       "cluster on the server's page or with `cyclecloud terminate_cluster`"},
      {"cluster: {provider: azure}\nnetwork: {region: e, fast: on}\n", "Standard_D32s_v5 has no InfiniBand"},
      {"cluster: {provider: azure}\nnetwork: {region: e}\nnode: {type: c7i.large}\n",
       "c.yaml: node.type is c7i.large, which is not the name of a size of azure, such as Standard_D32s_v5"},
      {"cluster: {provider: aws}\nnetwork: {region: e}\nnode: {head-type: Standard_D2s_v5}\n",
       "c.yaml: node.head-type is Standard_D2s_v5, which is not the name of a size of aws, such as c7i.16xlarge"},
      {"cluster: {provider: aws}\nnetwork: {region: e}\nnode: {type: large}\n", "node.type is large, which is not"},
      {"cluster: {provider: azure}\nnetwork: {region: e}\nnode: {type: Standard_HB120rs_v3, spot: true}\n",
       "does not allow spot machines"},
      {"cluster: {provider: aws, scheduler: cyclecloud}\nnetwork: {region: e}\n", "which needs provider azure"},
      {"cluster: {provider: azure, lifetime-hours: 3}\nnetwork: {region: e}\nazure: {resource-group: ours}\n",
       "deletes the resource group, but ours is shared with others"},
      {"cluster: {provider: azure, tags: \"trireme-run=x\"}\nnetwork: {region: e}\n", "trireme- are reserved"},
      {"cluster: azure\n", "c.yaml:1: cluster is a group of options, such as cluster.name; found \"azure\""},
      {"cluster: {name: [a\n", "c.yaml:2: not valid YAML"},
      {"- a\n", "c.yaml:1: expected `key: value` lines, found a list"},
      {"cluster: {provider: azure, provider: aws}\n", "\"cluster.provider\" appears twice in this file"},
      {"cluster: {lifetime-hours: 2026-01-01}\n", "expected a number from 0 to 8760"},
      {"cluster: {provider: azure, tags: \"Owner=a,owner=b\"}\nnetwork: {region: e}\n", "cluster.tags has owner twice"},
      {"cluster: {provider: aws, tags: \"Name=a\"}\nnetwork: {region: e}\n",
       "aws uses that tag for the machines' names"},
      {"cluster: {lifetime-hours: 3, nodes: 1}\nhosts: {list: h1}\n",
       "cluster.lifetime-hours is only for azure and aws"},
  };
  for (const auto& [text, message] : cases) EXPECT_THAT(message_of(text), HasSubstr(message)) << text;
}

TEST(ClusterOptions, WhatAProviderRefusesIsRefusedAtOnce) {
  const auto azure = [](const std::string& more) {
    return message_of("cluster: {provider: azure}\nnetwork: {region: e}\n" + more);
  };
  const auto aws = [](const std::string& more) {
    return message_of("cluster: {provider: aws}\nnetwork: {region: e}\n" + more);
  };
  for (const char* user : {"admin", "administrator", "test", "user1", "guest", "backup", "a", "console", "david",
                           "server", "sql", "support", "sys", "video", "actuser", "user5"})
    EXPECT_THAT(azure("access: {user: " + std::string(user) + "}\n"), HasSubstr("c.yaml: access.user is ")) << user;
  EXPECT_THAT(
      azure("access: {user: admin}\n"),
      HasSubstr("access.user is admin, which Azure does not allow as a login; name another user, such as trireme"));
  for (const char* user : {"www-data", "sshd", "slurm", "nobody", "daemon"})
    EXPECT_THAT(aws("access: {user: " + std::string(user) + "}\n"),
                HasSubstr("which is an account of the system in images of aws"))
        << user;
  for (const char* user : {"trireme", "ubuntu", "me", "user_a"})
    EXPECT_EQ(azure("access: {user: " + std::string(user) + "}\n"), "no error") << user;
  EXPECT_EQ(aws("access: {user: admin}\n"), "no error") << "the login of Debian's images";
  EXPECT_EQ(message_of(kHosts + "access: {user: admin}\n"), "no error");
  EXPECT_THAT(azure("azure: {resource-group: ours.}\n"), HasSubstr("of which the last is not '.'"));
  EXPECT_THAT(azure("azure: {resource-group: " + std::string(91, 'a') + "}\n"), HasSubstr("at most 90 characters"));
  const auto tags = [](const std::string& provider, const std::string& list) {
    return message_of("cluster: {provider: " + provider + ", tags: '" + list + "'}\nnetwork: {region: e}\n");
  };
  std::string many;
  for (int i = 0; i < 48; ++i) many += fmt::format("{}k{}=v", i == 0 ? "" : ",", i);
  EXPECT_THAT(tags("aws", many), HasSubstr("cluster.tags has 48 tags, but aws allows 50 for a resource"));
  EXPECT_THAT(tags("azure", "owner=" + std::string(257, 'v')), HasSubstr("128 characters of key and 256 of value"));
  EXPECT_THAT(tags("aws", std::string(129, 'k') + "=v"), HasSubstr("128 characters of key and 256 of value"));
  EXPECT_THAT(tags("azure", "Azure-team=a"), HasSubstr("Azure reserves tags that begin with azure"));
  EXPECT_EQ(tags("aws", "azure-team=a"), "no error");
}

TEST(ClusterOptions, NetworksThatAreNoObstacleAreAllowed) {
  const std::string azure = "cluster: {provider: azure}\nnetwork: {region: e, range: 100.100.0.0/24}\n";
  EXPECT_EQ(message_of(azure), "no error") << "Azure's gateway needs no range";
  const std::string aws = "cluster: {provider: aws}\nnetwork: {region: e";
  EXPECT_EQ(message_of(aws + ", range: 100.100.0.0/24, public-addresses: all}\n"), "no error");
  EXPECT_EQ(message_of(aws + "}\naccess: {from: '10.60.0.0/16, 10.60.1.0/32'}\n"), "no error") << "wider, and beside";
}

TEST(ClusterOptions, WhatHasNoEffectIsSaidUnlessItIsTheDefault) {
  const auto said = [](const std::string& text) {
    testing::internal::CaptureStderr();
    parse_options(text, "c.yaml");
    return testing::internal::GetCapturedStderr();
  };
  const std::string cyclecloud =
      "cluster: {provider: azure, scheduler: cyclecloud}\nsoftware: {package: a.deb}\nnetwork: {region: e";
  EXPECT_THAT(said(cyclecloud + ", public-addresses: all}\n"),
              HasSubstr("c.yaml:3: network.public-addresses has no effect: cluster.scheduler is cyclecloud"));
  EXPECT_THAT(said(kAzure + "azure: {cyclecloud-slurm: 3.0.0}\n"),
              HasSubstr("c.yaml:4: azure.cyclecloud-slurm has no effect: cluster.scheduler is not cyclecloud"));
  EXPECT_THAT(said("cluster: {provider: azure}\nnetwork: {region: e, zone: '1'}\n"),
              HasSubstr("c.yaml:2: network.zone has no effect: provider is azure"));
  EXPECT_THAT(said(kHosts + "node: {spot: true}\n"), HasSubstr("c.yaml:3: node.spot has no effect: provider is hosts"));
  EXPECT_EQ(said(cyclecloud + ", public-addresses: head, zone: ''}\nstorage: {kind: nfs}\n"), "");
}

TEST(ClusterOptions, SecretsAreRefusedAndNotRepeated) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"admin_password: hunter2\n", "a secret"},
      {"azure:\n  client-secret: hunter2\n", "a secret"},
      {"access: {key: AKIAIOSFODNN7EXAMPLE}\n", "an access key of AWS"},
      {"key: |\n  -----BEGIN OPENSSH PRIVATE KEY-----\n", "a private key"},
      {"storage: {path: \"https://x.blob/y?sv=1&sig=abcdefghijklmnopqrstuvwxyz\"}\n", "a shared access signature"},
      {"x: DefaultEndpointsProtocol=https;AccountKey=hunter2\n", "a key of an Azure storage account"},
      {"cluster: {tags: 'password=hunter2'}\n", "a secret"},
      {"cluster: {name: sea, api_token: hunter2}\n", "a secret"},
      {"# hf_hunter2hunter2hunter2hunter2\n", "an access token"},
      {"cluster: {tags: 'note=ghp_hunter2hunter2hunter2hunter2'}\n", "an access token"},
      {"x: wJalrXUtnFEMI/K7MDENG/bPxRfiCYhunter2KEY\n", "a secret access key of AWS"},
      {"x: https://me:hunter2@example.com/y\n", "a password in an address"},
      {"x: eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln\n", "a bearer token"},
  };
  for (const auto& [text, what] : cases) {
    const std::string message = message_of(kHosts + text);
    EXPECT_THAT(message, HasSubstr("this looks like " + what)) << text;
    EXPECT_THAT(message, testing::Not(testing::ContainsRegex("hunter2|IOSFODNN|abcdefghij|eyJhbG"))) << text;
  }
  EXPECT_EQ(message_of(kHosts + "# no secret: the password stays with az\n"), "no error");
  EXPECT_EQ(message_of(kHosts + "storage: {path: /da39a3ee5e6b4b0d3255bfef95601890afd80709}  # token: none\n"),
            "no error");
}

/// Forms beside those of secrets, and each sign at the borders of a word.
TEST(ClusterOptions, WhatOnlyResemblesASecretIsAllowed) {
  const std::string digits = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYhunter2KEY";
  for (const std::string& line : std::vector<std::string>{
           "BEGIN PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----", "xAKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPL",
           "AccountKey: x", "sig=abcdefghijklmnopqrstuvwxyz", "?sig=abcdefghijklmnopqrs", "eyJhbGciOiJ.eyJzd",
           "eyJhbGciOiJIUzI1NiJ9", "xeyJhbGciOiJIUzI1NiJ9.eyJzdWIi", "hf_hunter2hunter2hunt",
           "xhf_hunter2hunter2hunter2", "GHP_hunter2hunter2hunter2", digits + "X", digits + "=", "=" + digits,
           "https://example.com:8080/y@z", "https://user@example.com", "://me:hunter2@example.com"})
    EXPECT_EQ(message_of(kHosts + "# " + line + "\n"), "no error") << line;
  for (const std::string& line : std::vector<std::string>{
           "-----begin rsa private key-----", "(asiaIOSFODNN7EXAMPLE)", "a;sharedaccesskey=x",
           "&sig=abcdefghijklmnopqrst", "\"eyJhbGciOiJIU.eyJzdW\"", "hf_hunter2hunter2hunter2",
           "github_pat_hunter2_hunter2_hunter2", "xoxb-1234567890", "(" + digits + ")", "ftp://me:hunter2@example.com"})
    EXPECT_THAT(message_of(kHosts + "# " + line + "\n"), HasSubstr("c.yaml:3: this looks like ")) << line;
  for (const std::string& line : std::vector<std::string>{"/x-password: y", "my.access-key = y", "'Token' : y",
                                                          "credentials:y", "a-passphrase=\"y\""})
    EXPECT_THAT(message_of(kHosts + line + "\n"), HasSubstr("c.yaml:3: this looks like a secret")) << line;
  for (const std::string& line : std::vector<std::string>{"xpassword/ y", "password:   # none"})
    EXPECT_THAT(message_of(kHosts + line + "\n"), testing::Not(HasSubstr("this looks like"))) << line;
}

TEST(ClusterOptions, LongLinesTakeTimeInProportionToTheirLength) {
  for (const char* unit : {"a", "-", "token", "://", "a://b:", "eyJ", "sig=", "?sig=", "hf_", "-----BEGIN ",
                           "password ", "'", "AKIA", "x-", "= ", "a:"}) {
    std::string text;
    while (text.size() < 100'000) text += unit;
    const std::clock_t begin = std::clock();
    for (const char* form : {"# {}\n", "cluster: {{name: '{}'}}\n", "storage: {{path: '{}'}}\n",
                             "hosts: {{list: '{}'}}\n", "access: {{user: '{}'}}\n"})
      EXPECT_LT(message_of(fmt::format(fmt::runtime(form), text)).size(), 10'000U) << unit;
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 3) << unit;
  }
}

TEST(NodeTypes, CostIsThatOfAllMachinesOrNotKnown) {
  ClusterOptions options = parse_options(kAzure, "c.yaml");
  EXPECT_THAT(describe_cost(options, 3), HasSubstr("3 machines, Standard_D32s_v5: 4.61 USD per hour"));
  EXPECT_THAT(describe_cost(options, 3), HasSubstr("eastus, 2025-01; https://azure"));
  options.node.head_type = "Standard_D2s_v5";
  EXPECT_DOUBLE_EQ(cost_per_hour(options, 3).value_or(0), 0.096 + 2 * 1.536);
  options.node.type = "Standard_New_v9";
  EXPECT_THAT(describe_cost(options, 3), HasSubstr("the price is unknown, look it up at https://azure"));
}

TEST(NodeTypes, EveryKnownSizeHasAPriceAndItsDate) {
  for (const NodeType& type : node_types()) {
    EXPECT_GT(type.usd_per_hour, 0) << type.name;
    EXPECT_EQ(type.price_date.size(), 7U) << type.name;
    EXPECT_EQ(type.gpus > 0, accelerators_of(type.provider, type.name) == Accelerators::nvidia) << type.name;
  }
  ClusterOptions options = parse_options(kAzure, "c.yaml");
  options.node.type = "Standard_ND96isr_H100_v5";
  options.node.head_type = "Standard_D8s_v5";
  EXPECT_THAT(describe_cost(options, 3), HasSubstr("197.02 USD per hour"));
  EXPECT_THAT(describe_cost(options, 3), HasSubstr("2025-01 and 2023-12"));
}

TEST(NodeTypes, AreAllKnownToThePlanner) {
  EXPECT_EQ(node_types().size(), 23U);
  for (const NodeType& type : node_types()) {
    const trireme::NodeType* planned = known_node_type(planner_name(type.provider, type.name));
    ASSERT_NE(planned, nullptr) << type.name;
    EXPECT_EQ(planned->size, type.name);
    EXPECT_EQ(planned->cores, type.cores) << type.name;
    EXPECT_EQ(planned->gpus, type.gpus) << type.name;
    EXPECT_EQ(planned->price_per_hour, type.usd_per_hour) << type.name;
    EXPECT_GT(trireme_rates(*planned, 1, {}).peak_flops, 0) << type.name;
  }
  for (const char* guide : {"azure-d32-v5", "aws-c6i.16xlarge"}) EXPECT_NE(known_node_type(guide), nullptr) << guide;
}

TEST(NodeTypes, CycleCloudsSchedulerIsASmallMachineMore) {
  ClusterOptions options = parse_options(
      "cluster: {provider: azure, scheduler: cyclecloud, nodes: 2}\nnetwork: {region: e}\n"
      "node: {type: Standard_ND96amsr_A100_v4, disk-gb: 256}\n",
      "c.yaml");
  EXPECT_EQ(type_of_head(options), "Standard_D4s_v5");
  EXPECT_DOUBLE_EQ(cost_per_hour(options, 2).value_or(0), 0.192 + 2 * 32.77);
  EXPECT_THAT(describe_cost(options, 2),
              HasSubstr("3 machines, Standard_D4s_v5 and Standard_ND96amsr_A100_v4: 65.73 USD per hour"));
  options.node.head_type = "Standard_D8s_v5";
  EXPECT_EQ(type_of_head(options), "Standard_D8s_v5");
  options.cluster.scheduler = SchedulerChoice::slurm;
  options.node.head_type.clear();
  EXPECT_EQ(type_of_head(options), "Standard_ND96amsr_A100_v4") << "the head of other clusters trains, too";
  EXPECT_THAT(describe_cost(options, 2), HasSubstr("2 machines"));
}

TEST(ClusterDocuments, HaveTheTablesOfThisProgram) {
  const std::string page = read_text(source_dir() + "/docs/clouds.md");
  EXPECT_THAT(page, HasSubstr(options_table())) << "trireme cluster options prints them";
  EXPECT_THAT(page, HasSubstr(node_types_table())) << "trireme cluster options prints them";
}

}  // namespace
}  // namespace trireme::cloud
