#include "cloud/validate.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "cloud/layout.h"
#include "cloud/node_types.h"
#include "cluster/hostlist.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz", kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                           kDigits = "0123456789";

bool is_lower(char c) { return kLower.find(c) != std::string_view::npos || kDigits.find(c) != std::string_view::npos; }
bool is_letter_or_digit(char c) { return is_lower(c) || kUpper.find(c) != std::string_view::npos; }

/// Whether a text has nothing but letters, digits and `others`.
bool consists_of(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text,
                             [&](char c) { return is_letter_or_digit(c) || others.find(c) != std::string_view::npos; });
}
/// The same without upper-case letters.
bool is_low(std::string_view text, std::string_view others) {
  return consists_of(text, others) && text.find_first_of(kUpper) == std::string_view::npos;
}
bool begins_with(std::string_view text, std::string_view characters) {
  return !text.empty() && characters.find(text[0]) != std::string_view::npos;
}

bool is_cluster_name(std::string_view name) {
  return begins_with(name, kLower) && is_low(name, "-") && is_lower(name.back());
}
bool is_user_name(std::string_view name) {
  return name.size() <= 32 && (begins_with(name, kLower) || begins_with(name, "_")) && is_low(name, "_-");
}
/// An absolute path without empty parts.
bool is_plain_path(std::string_view path) {
  return begins_with(path, "/") && !path.ends_with('/') && path.find("//") == std::string_view::npos &&
         consists_of(path, "/._-");
}
bool is_tag(std::string_view tag) {
  const size_t equals = tag.find('=');
  return equals != std::string_view::npos && equals > 0 && consists_of(tag.substr(0, equals), "_.-") &&
         consists_of(tag.substr(equals + 1), "_.@:/-");
}
bool is_azure_size(std::string_view type) {
  const size_t series = type.find('_') + 1;
  return (type.starts_with("Standard_") || type.starts_with("Basic_")) && begins_with(type.substr(series), kUpper) &&
         consists_of(type, "_-");
}
bool is_aws_size(std::string_view type) {
  const size_t point = type.find('.');
  return point != std::string_view::npos && begins_with(type, kLower) && is_low(type.substr(0, point), "-") &&
         point + 1 < type.size() && is_low(type.substr(point + 1), "-");
}
bool is_host(std::string_view host) {
  return !host.empty() && is_letter_or_digit(host.front()) && is_letter_or_digit(host.back()) &&
         consists_of(host, "._:-");
}

/// Checks words that go into commands and files of the nodes; they must not have characters special in a shell.
void check_words(const ClusterOptions& options, const std::string& path) {
  const std::string& name = options.cluster.name;
  require(name.size() <= 24 && is_cluster_name(name), ErrorKind::config,
          "{}: cluster.name is \"{}\", expected at most 24 lower-case letters, digits and '-', beginning with a letter",
          path, name);
  require(is_user_name(options.access.user), ErrorKind::config, "{}: access.user is \"{}\", which is not a user name",
          path, options.access.user);
  require(options.cluster.provider == ProviderChoice::hosts || options.access.user != "root", ErrorKind::config,
          "{}: access.user is root, but images of {} do not allow login as root; name another user", path,
          name_of(options.cluster.provider));
  require(is_plain_path(options.storage.path), ErrorKind::config,
          "{}: storage.path is \"{}\", expected an absolute path of letters, digits, '.', '_' and '-'", path,
          options.storage.path);
  for (const auto& [option, value] : {std::pair{"node.type", options.node.type},
                                      {"node.head-type", options.node.head_type},
                                      {"network.region", options.network.region},
                                      {"azure.cyclecloud-slurm", options.azure.cyclecloud_slurm},
                                      {"azure.resource-group", options.azure.resource_group}}) {
    require(consists_of(value, "._-"), ErrorKind::config,
            "{}: {} is \"{}\", expected letters, digits, '.', '_' and '-'", path, option, value);
  }
  require(consists_of(options.node.image, ":/._-"), ErrorKind::config,
          "{}: node.image is \"{}\", which is not an image name", path, options.node.image);
  std::set<std::string> keys;
  for (const std::string& tag : split_list(options.cluster.tags)) {
    require(is_tag(tag), ErrorKind::config,
            "{}: cluster.tags has \"{}\", expected key=value of letters, digits and '_.-@:/'", path, tag);
    require(!tag.starts_with("trireme-"), ErrorKind::config,
            "{}: cluster.tags has \"{}\", but tags that begin with trireme- are reserved", path, tag);
    const std::string key = lower_case(tag.substr(0, tag.find('=')));
    require(key != "name" || options.cluster.provider != ProviderChoice::aws, ErrorKind::config,
            "{}: cluster.tags has \"{}\", but aws uses that tag for the machines' names; choose another", path, tag);
    require(keys.insert(key).second, ErrorKind::config,
            "{}: cluster.tags has {} twice (upper and lower case are the same)", path, tag.substr(0, key.size()));
  }
}

/// Logins that Azure refuses for machines with Linux or Windows, and accounts that images of both providers have for
/// services: cloud-init would not create them with a home and a key.
constexpr std::array kAzureLogins = {
    "1",      "123",           "a",      "actuser", "adm",     "admin",   "admin1",
    "admin2", "administrator", "aspnet", "backup",  "console", "david",   "guest",
    "john",   "owner",         "root",   "server",  "sql",     "support", "support_388945a0",
    "sys",    "test",          "test1",  "test2",   "test3",   "user",    "user1",
    "user2",  "user3",         "user4",  "user5",   "video"};
constexpr std::array kServiceAccounts = {
    "_apt",  "bin",  "backup",     "chrony", "daemon", "dnsmasq", "games",  "gnats", "irc",       "list",    "lp",
    "mail",  "man",  "messagebus", "munge",  "mysql",  "news",    "nobody", "nslcd", "pollinate", "proxy",   "postfix",
    "slurm", "sshd", "statd",      "sync",   "sys",    "syslog",  "tss",    "uucp",  "uuidd",     "www-data"};

/// What a provider refuses, some of it only after minutes and when other machines are there.
void check_limits(const ClusterOptions& options, const std::string& path) {
  const std::string& user = options.access.user;
  const std::string_view provider = name_of(options.cluster.provider);
  const bool azure = options.cluster.provider == ProviderChoice::azure;
  const auto is_one_of = [&](const auto& names) { return std::ranges::find(names, user) != names.end(); };
  require(!azure || !is_one_of(kAzureLogins), ErrorKind::config,
          "{}: access.user is {}, which Azure does not allow as a login; name another user, such as trireme", path,
          user);
  require(
      !is_one_of(kServiceAccounts), ErrorKind::config,
      "{}: access.user is {}, which is an account of the system in images of {}; name another user, such as trireme",
      path, user, provider);
  const std::string& group = options.azure.resource_group;
  constexpr size_t kLongestGroup = 90, kMostTags = 50;
  require(group.size() <= kLongestGroup && !group.ends_with('.'), ErrorKind::config,
          "{}: azure.resource-group is \"{}\", expected at most {} characters, of which the last is not '.'", path,
          group, kLongestGroup);
  const std::vector<std::string> tags = split_list(options.cluster.tags);
  constexpr size_t kOwn = 3;  // of the cluster, the run and, on aws, the machine's name
  require(tags.size() + kOwn <= kMostTags, ErrorKind::config,
          "{}: cluster.tags has {}, but {} allows {} for a resource, and {} are needed for the cluster's own", path,
          count_text(tags.size(), "tag"), provider, kMostTags, kOwn);
  const size_t longest_key = 128, longest_value = 256;  // of Azure's storage accounts, and of aws
  for (const std::string& tag : tags) {
    const size_t equals = tag.find('=');
    require(equals <= longest_key && tag.size() - equals - 1 <= longest_value, ErrorKind::config,
            "{}: cluster.tags has \"{}\", expected at most {} characters of key and {} of value", path, tag,
            longest_key, longest_value);
    const std::string key = lower_case(tag.substr(0, equals));
    for (const char* reserved : {"microsoft", "azure", "windows"})
      require(!azure || !key.starts_with(reserved), ErrorKind::config,
              "{}: cluster.tags has \"{}\", but Azure reserves tags that begin with {}", path, tag, reserved);
  }
}

void check_network(const ClusterOptions& options, const std::string& path) {
  const std::string_view provider = name_of(options.cluster.provider);
  require(!options.network.region.empty(), ErrorKind::config, "{}: network.region is empty; {} needs one, such as {}",
          path, provider, options.cluster.provider == ProviderChoice::azure ? "eastus" : "us-east-1");
  AddressRange range;
  require(parse_range(options.network.range, range) && range.bits >= 16 && range.bits <= 28, ErrorKind::config,
          "{}: network.range is \"{}\", expected a network such as 10.60.0.0/24, /16 to /28", path,
          options.network.range);
  constexpr uint32_t kSharedRange = 100u << 24 | 64u << 16;  // 100.64.0.0/10; the NAT gateway uses a part of it
  require(options.cluster.provider != ProviderChoice::aws || options.network.public_addresses == PublicAddresses::all ||
              range.first >> 22 != kSharedRange >> 22,
          ErrorKind::config,
          "{}: network.range {} overlaps 100.64.0.0/10, which network.public-addresses head needs for the NAT gateway; "
          "choose another range, such as 10.60.0.0/24",
          path, options.network.range);
  // Both providers reserve the first four addresses and the last one; the one before that is for the shared folder.
  const int64_t most = static_cast<int64_t>(range.size()) - 6;
  require(options.cluster.nodes <= most, ErrorKind::config,
          "{}: network.range {} has room for {}, but cluster.nodes is {}", path, options.network.range,
          count_text(most, "machine"), options.cluster.nodes);
  if (options.access.from == "caller") return;
  const std::vector<std::string> sources = split_list(options.access.from);
  require(!sources.empty(), ErrorKind::config,
          "{}: access.from is empty, so nobody could log in; expected caller or a.b.c.d/32", path);
  std::set<std::string> seen;
  for (const std::string& source : sources) {
    AddressRange from;
    require(parse_range(source, from), ErrorKind::config,
            "{}: access.from has \"{}\", expected caller or networks such as 203.0.113.7/32", path, source);
    require(from.bits >= 8, ErrorKind::config,
            "{}: access.from has {}, which allows connections from the whole internet; name the addresses that log in",
            path, source);
    require(seen.insert(source).second, ErrorKind::config, "{}: access.from has {} twice", path, source);
    require(from.bits < range.bits || from.first < range.first || from.first >= range.first + range.size(),
            ErrorKind::config,
            "{}: access.from has {}, which is a part of network.range {}, the cluster itself; name the addresses that "
            "log in, or choose another range",
            path, source, options.network.range);
  }
}

void check_types(const ClusterOptions& options, const std::string& path) {
  const bool azure = options.cluster.provider == ProviderChoice::azure;
  for (const auto& [option, type] :
       {std::pair{"node.type", options.node.type}, {"node.head-type", options.node.head_type}}) {
    require(type.empty() || (azure ? is_azure_size(type) : is_aws_size(type)), ErrorKind::config,
            "{}: {} is {}, which is not the name of a size of {}, such as {}", path, option, type,
            name_of(options.cluster.provider), azure ? "Standard_D32s_v5" : "c7i.16xlarge");
  }
  require(!options.node.spot || options.cluster.provider != ProviderChoice::azure || !uses_fast_network(options),
          ErrorKind::config,
          "{}: node.spot with InfiniBand: Azure needs an availability set for InfiniBand, which does not allow spot "
          "machines; set node.spot or network.fast off",
          path);
  require(!has_gpus(options) || !options.node.image.empty() || options.node.disk_gb >= kLeastGpuDiskGb,
          ErrorKind::config,
          "{}: node.disk-gb is {}, but the image with NVIDIA's driver fills most of that; set it to at least {}", path,
          options.node.disk_gb, kLeastGpuDiskGb);
  if (options.network.fast != FastNetwork::on) return;
  const std::string type = type_of_nodes(options);
  const NodeType* known = find_node_type(options.cluster.provider, type);
  require(known == nullptr || known->fast, ErrorKind::config,
          "{}: network.fast is on, but {} has no {}; choose a size that has one (docs/clouds.md lists some), or auto",
          path, type, options.cluster.provider == ProviderChoice::azure ? "InfiniBand" : "Elastic Fabric Adapter");
}

void check_hosts(const ClusterOptions& options, const std::string& path) {
  const std::vector<std::string> hosts = expand_hostlist(options.hosts.list, path + ": hosts.list");
  std::set<std::string> seen;
  for (const std::string& host : hosts) {
    require(is_host(host), ErrorKind::config,
            "{}: hosts.list has \"{}\", which is not a name or address (the user is access.user)", path, host);
    require(seen.insert(host).second, ErrorKind::config, "{}: hosts.list has {} twice", path, host);
  }
  require(static_cast<int64_t>(hosts.size()) >= options.cluster.nodes, ErrorKind::config,
          "{}: hosts.list has {}, but cluster.nodes is {}; add machines to the list or lower cluster.nodes", path,
          count_text(hosts.size(), "machine"), options.cluster.nodes);
  require(options.storage.kind != StorageChoice::provider, ErrorKind::config,
          "{}: storage.kind is provider, but provider hosts has no storage; expected nfs or existing", path);
  require(options.cluster.lifetime_hours == 0, ErrorKind::config,
          "{}: cluster.lifetime-hours is only for azure and aws; remove it for provider hosts", path);
}

/// Whether a package has the library for GPUs (`scripts/package --cuda`). Empty: no program here lists its files.
std::optional<bool> has_gpu_library(const std::string& package) {
  ProcessRequest list;
  list.arguments = {"tar", "-tzf", package};
  if (package.ends_with(".deb")) list.arguments = {"dpkg-deb", "--contents", package};
  list.timeout = std::chrono::minutes(2);
  const ProcessResult listed = run_process(list);
  if (listed.exit_code != 0 || listed.timed_out) return {};
  return listed.out.find("/libtrireme_cuda.so") != std::string::npos;
}

}  // namespace

std::string AddressRange::address(uint32_t offset) const {
  const uint32_t value = first + offset;
  return fmt::format("{}.{}.{}.{}", value >> 24, value >> 16 & 255, value >> 8 & 255, value & 255);
}

bool parse_range(const std::string& text, AddressRange& range) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  in_addr address{};
  if (inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) != 1) return false;
  const char* end = text.data() + text.size();
  int bits = -1;
  const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || rest != end || bits < 0 || bits > 32) return false;
  range = {ntohl(address.s_addr), bits};
  return (uint64_t{range.first} & (range.size() - 1)) == 0;
}

void require_software(const ClusterOptions& options) {
  const std::string &package = options.software.package, &source = options.software.source;
  require(package.empty() || source.empty(), ErrorKind::config,
          "software.package and software.source are both set; leave one of them empty");
  if (!source.empty()) {
    std::error_code unknown;
    const std::string at = expand_home(source);
    const bool archive = source.ends_with(".tar.gz") && std::filesystem::is_regular_file(at, unknown);
    require(archive || std::filesystem::exists(at + "/scripts/package", unknown), ErrorKind::config,
            "software.source: {} is neither a checkout of Trireme nor a .tar.gz of one", source);
  }
  if (package.empty()) return;
  require(package.ends_with(".deb") || package.ends_with(".tar.gz"), ErrorKind::config,
          "software.package is {}, expected a .deb or .tar.gz of scripts/package", package);
  std::error_code ignored;
  require(std::filesystem::is_regular_file(expand_home(package), ignored), ErrorKind::config,
          "software.package: the file {} does not exist; create it with scripts/package", package);
  if (!has_gpus(options) || has_gpu_library(expand_home(package)).value_or(true)) return;
  log::warning(
      "software.package: {} has no libtrireme_cuda.so, so the program would compute on the processors of machines with "
      "GPUs; make it with `scripts/package --cuda`",
      package);
}

void require_software_for_new(const ClusterOptions& options) {
  require_software(options);
  require(options.cluster.provider == ProviderChoice::hosts || !options.node.image.empty() ||
              !options.software.package.empty() || !options.software.source.empty(),
          ErrorKind::config,
          "software.package and software.source are both empty, but new machines of {} do not have Trireme; name the "
          ".deb or .tar.gz of scripts/package, a checkout, or in node.image an image with it",
          name_of(options.cluster.provider));
}

void validate(const ClusterOptions& options, const std::string& path) {
  check_words(options, path);
  const bool cyclecloud = options.cluster.scheduler == SchedulerChoice::cyclecloud;
  require(!cyclecloud || options.cluster.provider == ProviderChoice::azure, ErrorKind::config,
          "{}: cluster.scheduler is cyclecloud, which needs provider azure; provider is {}", path,
          name_of(options.cluster.provider));
  require(!cyclecloud || options.cluster.lifetime_hours == 0, ErrorKind::config,
          "{}: cluster.lifetime-hours is {}, but CycleCloud decides when its machines end; remove the option, and end "
          "the cluster on the server's page or with `cyclecloud terminate_cluster`",
          path, options.cluster.lifetime_hours);
  require(
      !options.cluster.accounting || options.cluster.scheduler == SchedulerChoice::slurm, ErrorKind::config,
      "{}: cluster.accounting is true, but cluster.scheduler is {}; only Slurm keeps accounts: set cluster.scheduler "
      "to slurm, or cluster.accounting to false",
      path, name_of(options.cluster.scheduler));
  require(options.azure.resource_group.empty() || options.cluster.lifetime_hours == 0, ErrorKind::config,
          "{}: cluster.lifetime-hours deletes the resource group, but {} is shared with others; leave "
          "azure.resource-group empty, or set lifetime-hours to 0",
          path, options.azure.resource_group);
  if (options.cluster.provider == ProviderChoice::hosts) return check_hosts(options, path);
  require(options.storage.kind != StorageChoice::existing, ErrorKind::config,
          "{}: storage.kind is existing, but new machines have no existing folder; expected nfs or provider", path);
  check_limits(options, path);
  check_network(options, path);
  check_types(options, path);
}

}  // namespace trireme::cloud
