// `trireme cluster plan --format terraform`: the configuration against files that were checked by hand and by
// scripts/prove_terraform, its references, what it refuses, and that nothing of the user is interpreted.
#include "cloud/terraform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "cloud/hcl.h"
#include "tests/support/paths.h"

namespace trireme::cloud {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(Hcl, TextsHaveExactlyTheirValue) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", R"("plain")"},
      {R"(a "b" \c)", R"("a \"b\" \\c")"},
      {"a\nb\r\tc", R"("a\nb\r\tc")"},
      {"${file(\"/etc/passwd\")}", R"("$${file(\"/etc/passwd\")}")"},
      {"%{ if true }", R"("%%{ if true }")"},
      {"$${x} 5% $ $", R"("$$${x} 5% $ $")"},
      {std::string("\x01") + "\x7f", "\"\\u0001\\u007f\""},
      {"ä", "\"ä\""},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(hcl_text(value), text);
  EXPECT_EQ(hcl_texts({"a", "${b}"}), R"(["a", "$${b}"])");
  EXPECT_EQ(template_text("${a} %{b} $c %d $${e}"), "$${a} %%{b} $c %d $$${e}");
}

TEST(Hcl, BlocksAreWrittenAsTerraformFormatsThem) {
  Hcl inner("inner");
  inner.set("x", "1");
  Hcl block("resource", {"type", "name"});
  block.text("a", "b").set("longer", "[\n  1,\n\n  2,\n]").set("c", "true").set("long_name", "2").comment("why");
  block.set("d", "3").block(inner).block(Hcl("empty")).map("m", {{"k", "1"}, {"key", "2"}}).map("n", {});
  EXPECT_EQ(block.str(), R"(resource "type" "name" {
  a = "b"
  longer = [
    1,

    2,
  ]
  c         = true
  long_name = 2
  # why
  d = 3

  inner {
    x = 1
  }

  empty {}

  m = {
    "k"   = 1
    "key" = 2
  }
  n = {}
}
)");
}

class Terraform : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "trireme-terraform-" + std::to_string(getpid());
    std::filesystem::create_directories(folder_);
    write_key("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheTests you@here\n");
    write_text(folder_ + "/trireme_1_amd64.deb", "a package");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write_key(const std::string& text) const { write_text(folder_ + "/key.pub", text); }
  std::string package(const std::string& name = "trireme_1_amd64.deb") const {
    return "software: {package: '" + folder_ + "/" + name + "'}\n";
  }

  std::map<std::string, std::string> plan(const std::string& text,
                                          const std::string& from = "198.51.100.7/32, 203.0.113.0/24") const {
    const ClusterOptions options =
        parse_options(text + "access: {from: '" + from + "', key: " + folder_ + "/key.pub}\n", "c.yaml");
    std::map<std::string, std::string> files;
    for (const PlanFile& file : terraform_plan(lay_out(options))) {
      EXPECT_TRUE(files.emplace(file.path, file.text).second) << file.path;
    }
    return files;
  }

  /// All .tf files, each after a line with its name.
  static std::string joined(const std::map<std::string, std::string>& files) {
    std::string text;
    for (const auto& [path, content] : files) {
      if (path.ends_with(".tf")) text += "## " + path + "\n" + content;
    }
    return text;
  }

  static void expect_golden(const std::string& name, const std::string& found) {
    const std::string path = source_dir() + "/tests/golden/cluster/" + name;
    const std::string expected = std::filesystem::exists(path) ? read_text(path) : "";
    if (expected != found) write_text(testing::TempDir() + name, found);
    EXPECT_EQ(expected, found) << "found: " << testing::TempDir() << name;
  }

  std::string message_of(const std::string& text) const {
    try {
      plan(text);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }

  std::string folder_;
};

constexpr const char* kInfiniBand =
    "cluster: {provider: azure, name: sea, nodes: 2, lifetime-hours: 8, tags: owner=you}\n"
    "network: {region: eastus}\n"
    "node: {type: Standard_HB120rs_v3, head-type: Standard_D2s_v5}\nstorage: {kind: provider, gb: 256}\n";
constexpr const char* kAdapters =
    "cluster: {provider: aws, name: sea, nodes: 2, lifetime-hours: 8}\n"
    "network: {region: us-east-2, public-addresses: all}\n"
    "node: {type: hpc7a.96xlarge, head-type: c7i.large, spot: true}\n"
    "storage: {kind: provider}\n";
constexpr const char* kAwsHead =
    "cluster: {provider: aws, name: sea, nodes: 2}\n"
    "network: {region: us-east-2, zone: us-east-2b}\n"
    "node: {type: hpc7a.96xlarge, image: ami-0123456789abcdef0}\n";
constexpr const char* kCycleCloud =
    "cluster: {provider: azure, name: sea, nodes: 4, scheduler: cyclecloud}\nnetwork: {region: eastus}\n";
constexpr const char* kAzureAll =
    "cluster: {provider: azure, name: sea, nodes: 2}\nnetwork: {region: eastus, public-addresses: all}\n";
constexpr const char* kShared =
    "cluster: {provider: azure, name: sea}\nnetwork: {region: eastus}\nnode: {spot: true, image: "
    "'/subscriptions/1/images/mine'}\nazure: {resource-group: theirs}\n";

TEST_F(Terraform, ConfigurationsAreThoseThatWereChecked) {
  expect_golden("terraform-azure.tf", joined(plan(kInfiniBand)));
  expect_golden("terraform-aws.tf", joined(plan(kAdapters)));
  expect_golden("terraform-aws-head.tf", joined(plan(kAwsHead)));
  expect_golden("terraform-cyclecloud.tf", joined(plan(kCycleCloud + package())));
}

TEST_F(Terraform, TheSameOptionsGiveTheSameBytes) {
  for (const std::string& text : {std::string(kInfiniBand), std::string(kAdapters), kCycleCloud + package()}) {
    EXPECT_EQ(plan(text), plan(text));
  }
}

TEST_F(Terraform, WhatIsUsedIsDeclaredAndWhatIsDeclaredIsUsed) {
  const std::regex declaration("(?:^|\n)(resource|data|variable) \"(\\w+)\"(?: \"(\\w+)\")?"),
      local("\nlocals \\{\n((?:  .*\n|\n)*)\\}"), name("\n  (\\w+) +="),
      reference(R"((?:^|[^\w.])((?:data\.)?(?:azurerm|aws)_\w+\.\w+|var\.\w+|local\.\w+))"), text("\"[^\"$\n]*\"");
  for (const std::string& options : {std::string(kInfiniBand), std::string(kAdapters), std::string(kAwsHead),
                                     kCycleCloud + package(), std::string(kShared), std::string(kAzureAll)}) {
    const std::string all = "\n" + joined(plan(options));
    std::set<std::string> declared, used;
    for (std::sregex_iterator at(all.begin(), all.end(), declaration), end; at != end; ++at) {
      const std::string kind = (*at)[1], first = (*at)[2], second = (*at)[3];
      declared.insert(kind == "variable" ? "var." + first : (kind == "data" ? "data." : "") + first + "." + second);
    }
    for (std::sregex_iterator at(all.begin(), all.end(), local), end; at != end; ++at) {
      const std::string body = "\n" + (*at)[1].str();
      for (std::sregex_iterator one(body.begin(), body.end(), name); one != end; ++one)
        declared.insert("local." + (*one)[1].str());
    }
    const std::string expressions = std::regex_replace(all, text, "");
    for (std::sregex_iterator at(expressions.begin(), expressions.end(), reference), end; at != end; ++at)
      used.insert((*at)[1]);
    for (const std::string& one : used) EXPECT_TRUE(declared.contains(one)) << one << " of " << options;
    for (const std::string& one : declared) {
      if (one.starts_with("var.") || one.starts_with("local.") || one.starts_with("data.")) {
        EXPECT_TRUE(used.contains(one)) << one << " of " << options;
      }
    }
    EXPECT_GT(used.size(), 10U);
    EXPECT_EQ(std::ranges::count(all, '{'), std::ranges::count(all, '}'));
  }
}

TEST_F(Terraform, OnlyAllowedAddressesMayConnectAndNoPasswordExists) {
  for (const std::string& options : {std::string(kInfiniBand), std::string(kAdapters), kCycleCloud + package()}) {
    const auto files = plan(options);
    EXPECT_THAT(files.at("variables.tf"), HasSubstr(R"(default     = ["198.51.100.7/32", "203.0.113.0/24"])"));
    const std::string all = joined(files);
    EXPECT_THAT(all, Not(ContainsRegex("(source_address_prefix|cidr_ipv4) += \"(\\*|Internet)\"")));
    EXPECT_THAT(all, Not(HasSubstr("admin_password")));
    EXPECT_THAT(all, Not(ContainsRegex("disable_password_authentication += false")));
  }
  // Unknown addresses are asked for.
  ClusterOptions options = parse_options(std::string(kInfiniBand) + "access: {key: " + folder_ + "/key.pub}\n", "c");
  for (const PlanFile& file : terraform_plan(lay_out(options))) {
    if (file.path == "variables.tf") {
      EXPECT_THAT(file.text, Not(HasSubstr("default")));
    }
  }
}

TEST_F(Terraform, ACycleCloudServerHasTheRightsThatItNeeds) {
  const auto files = plan(kCycleCloud + package());
  const std::string& identities = files.at("identities.tf");
  EXPECT_THAT(identities, Not(HasSubstr("\"Contributor\"")));
  EXPECT_THAT(identities, Not(HasSubstr("\"Owner\"")));
  EXPECT_THAT(identities, Not(HasSubstr("listKeys")));
  EXPECT_THAT(identities, Not(HasSubstr("Microsoft.Authorization")));
  // What holds for the whole subscription only reads.
  const size_t reads = identities.find("\"azurerm_role_definition\" \"reads\"");
  const std::string definition = identities.substr(reads, identities.find("resource", reads) - reads);
  const std::regex action("\"(Microsoft[^\"]*)\"");
  for (std::sregex_iterator at(definition.begin(), definition.end(), action), end; at != end; ++at)
    EXPECT_THAT((*at)[1].str(), testing::EndsWith("/read"));
  EXPECT_THAT(files.at("locker.tf"), HasSubstr("shared_access_key_enabled         = false"));
}

TEST_F(Terraform, TheDocumentOfACycleCloudServerKeepsWhatIsNotTerraforms) {
  write_key("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheTests ${file(/etc/passwd)}%{x}$(reboot)`id`\n");
  const auto files = plan(kCycleCloud + package("trireme_1_amd64.deb"));
  const std::string& document = files.at("cloud-init/server.yaml.tftpl");
  const std::set<std::string> given = {"subscription", "tenant",    "client_id", "locker_identity",
                                       "account",      "container", "group",     "location",
                                       "subnet",       "start",     "files"};
  std::set<std::string> used;
  const std::regex sign(R"((\$+|%+)\{([^}]*)\})");
  for (std::sregex_iterator at(document.begin(), document.end(), sign), end; at != end; ++at) {
    if ((*at)[1].length() != 1) continue;
    std::string inside = (*at)[2];
    if (inside == R"(join("\n      ", files))") inside = "files";
    EXPECT_TRUE(given.contains(inside)) << at->str();
    used.insert(inside);
  }
  EXPECT_EQ(used, given);
  const std::string& server = files.at("server.tf");
  for (const std::string& one : given) EXPECT_THAT(server, ContainsRegex("\n    " + one + " +="));
  EXPECT_THAT(document, HasSubstr("TRIREME_KEY='ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKeyOfTheTests "
                                  "$${file(/etc/passwd)}%%{x}$(reboot)`id`'\n"));
  EXPECT_THAT(document, HasSubstr(indented(template_text(cyclecloud_server_script()), 6)));
  EXPECT_THAT(document, Not(ContainsRegex("TRIREME_[A-Z]*PASSWORD")));
}

TEST_F(Terraform, MachinesBehindTheHeadWaitForTheirWayOut) {
  const std::string azure = joined(plan(kInfiniBand)), aws = joined(plan(kAwsHead));
  EXPECT_THAT(azure, HasSubstr("depends_on     = [azurerm_nat_gateway_public_ip_association.cluster]"));
  EXPECT_THAT(azure, ContainsRegex("depends_on += .*azurerm_subnet_nat_gateway_association.nodes"));
  EXPECT_THAT(aws, ContainsRegex("depends_on += \\[aws_route.out, "));
  EXPECT_THAT(aws, HasSubstr("nat_gateway_id         = aws_nat_gateway.cluster.id"));
  for (const std::string& all : {joined(plan(kAzureAll)), joined(plan(kAdapters)),
                                 joined(plan("cluster: {provider: aws, nodes: 1}\nnetwork: {region: us-east-2}\n")),
                                 joined(plan("cluster: {provider: azure, nodes: 1}\nnetwork: {region: eastus}\n"))}) {
    EXPECT_THAT(all, Not(HasSubstr("nat_gateway")));
  }
}

TEST_F(Terraform, EveryNetworkCardOfASizeGetsAnAdapter) {
  const std::string nodes = plan(
                                "cluster: {provider: aws, name: sea, nodes: 2}\nnetwork: {region: us-east-1, "
                                "public-addresses: head, fast: on}\n"
                                "node: {type: p5.48xlarge, head-type: t3.large, disk-gb: 256}\n")
                                .at("nodes.tf");
  EXPECT_THAT(nodes,
              HasSubstr(R"(size = "t3.large", head = true, public = true, spot = false, efa = false, cards = 1, )"
                        "placed = false }"));
  EXPECT_THAT(nodes, HasSubstr("efa = true, cards = 32, placed = true }"));
  EXPECT_THAT(nodes, HasSubstr(R"(each.value.cards > 2 ? "efa-only" : "efa")"));
}

TEST_F(Terraform, WhatTerraformCannotDoIsRefused) {
  EXPECT_EQ(message_of("cluster: {provider: hosts, nodes: 1}\nhosts: {list: 10.0.0.1}\n"),
            "--format terraform: the machines of provider hosts exist already, so Terraform has nothing to create; "
            "leave the option out, or choose provider azure or aws");
  EXPECT_EQ(message_of("cluster: {provider: azure}\nnetwork: {region: eastus}\nnode: {image: Debian12}\n"),
            "node.image: Debian12 is a name of az, which Terraform does not know; write "
            "PUBLISHER:OFFER:SKU:VERSION (`az vm image list` shows it) or an identity (/subscriptions/...)");
  EXPECT_THAT(message_of(kCycleCloud), HasSubstr("cluster.scheduler is cyclecloud, but software.package is empty"));
  write_text(folder_ + "/my trireme.deb", "a package");
  EXPECT_EQ(message_of(kCycleCloud + package("my trireme.deb")),
            "software.package: the server fetches my trireme.deb by its name, which has characters other than letters, "
            "digits and \"._+~-\"; rename the file");
}

}  // namespace
}  // namespace trireme::cloud
