#include "cloud/layout.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/host.h"
#include "cloud/validate.h"
#include "cluster/hostlist.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

/// Both providers reserve the first four addresses of a network.
constexpr uint32_t kFirstAddress = 4;

std::string read_public_key(const ClusterOptions& options) {
  const std::string path = expand_home(options.access.key);
  std::string text;
  try {
    text = read_text(path, 65536);
  } catch (const Error& e) {
    fail(ErrorKind::config, "access.key: {}; create a key pair with `ssh-keygen -t ed25519`", e.what());
  }
  require(text.find("PRIVATE KEY") == std::string::npos, ErrorKind::config,
          "access.key: {} is a private key, which must not be copied; name the file of its public half, {}.pub", path,
          path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const bool is_key = (text.starts_with("ssh-") || text.starts_with("ecdsa-") || text.starts_with("sk-")) &&
                      text.find(' ') != std::string::npos && text.find('\n') == std::string::npos &&
                      text.find_first_of("\"\\'") == std::string::npos;
  require(is_key, ErrorKind::config,
          "access.key: {} has no public ssh key; expected one line such as ssh-ed25519 AAAA... name", path);
  return text;
}

/// IPv4 address of a machine, resolved on this one.
std::string address_of(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  const int code = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  require(code == 0 && found != nullptr, ErrorKind::config,
          "hosts.list: cannot resolve {} to an IPv4 address here ({}); write its address into the list", host,
          gai_strerror(code));
  std::array<char, NI_MAXHOST> text{};
  getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return text.data();
}

Node make_node(const ClusterOptions& options, int number) {
  Node node{number, fmt::format("{}-{}", options.cluster.name, number), "", ""};
  if (options.cluster.provider != ProviderChoice::hosts) {
    AddressRange range;
    parse_range(options.network.range, range);
    node.address = range.address(kFirstAddress + static_cast<uint32_t>(number) - 1);
    return node;
  }
  const std::vector<std::string> hosts = expand_hostlist(options.hosts.list, "hosts.list");
  const auto place = static_cast<size_t>(number - 1);
  require(place < hosts.size(), ErrorKind::config,
          "{} is machine {} of hosts.list, but the list has only {}; put it back into the file, or add a machine",
          node.name, number, hosts.size());
  node.login = hosts[place];
  node.address = address_of(node.login);
  return node;
}

}  // namespace

std::string expand_home(const std::string& path) {
  const char* home = environment_variable("HOME");
  return path.starts_with("~/") && home != nullptr ? home + path.substr(1) : path;
}

std::string storage_address(const ClusterOptions& options) {
  AddressRange range;
  parse_range(options.network.range, range);
  return range.address(static_cast<uint32_t>(range.size()) - 2);
}

std::string public_address() {
  const ProcessResult asked =
      run_process({.arguments = {"curl", "-4fsS", "--max-time", "10", "https://checkip.amazonaws.com"},
                   .input = "",
                   .variables = {},
                   .user = ""});
  std::string address = asked.out;
  while (!address.empty() && (address.back() == '\n' || address.back() == '\r')) address.pop_back();
  AddressRange range;
  require(asked.exit_code == 0 && parse_range(address + "/32", range), ErrorKind::io,
          "cannot find this machine's public address (curl https://checkip.amazonaws.com {}); write it into "
          "access.from, such as 203.0.113.7/32",
          describe_end(asked));
  return address + "/32";
}

Cluster lay_out(const ClusterOptions& options, std::span<const int> numbers, int first) {
  Cluster cluster;
  cluster.options = options;
  cluster.public_key = read_public_key(options);
  const std::string of = options.cluster.name + "\n" + cluster.public_key;
  cluster.run = hex64(xxh3(std::as_bytes(std::span(of.data(), of.size())))).substr(0, 12);
  if (options.access.from != "caller") cluster.sources = split_list(options.access.from);
  for (const int number : numbers) cluster.nodes.push_back(make_node(options, number));
  if (options.cluster.provider == ProviderChoice::hosts) return cluster;
  for (int number = 1; number <= first; ++number) cluster.first_nodes.push_back(make_node(options, number));
  return cluster;
}

Cluster lay_out(const ClusterOptions& options) {
  std::vector<int> numbers(static_cast<size_t>(options.cluster.nodes));
  std::iota(numbers.begin(), numbers.end(), 1);
  return lay_out(options, numbers, static_cast<int>(options.cluster.nodes));
}

bool has_public_address(const ClusterOptions& options, const Node& node) {
  return options.network.public_addresses == PublicAddresses::all || node.is_head();
}

bool needs_nat_gateway(const Cluster& cluster) {
  return std::ranges::any_of(cluster.nodes,
                             [&](const Node& node) { return !has_public_address(cluster.options, node); });
}

std::string first_address(const ClusterOptions& options) {
  AddressRange range;
  parse_range(options.network.range, range);
  return range.address(kFirstAddress);
}

std::vector<std::pair<std::string, std::string>> tags_of(const Cluster& cluster) {
  std::vector<std::pair<std::string, std::string>> tags = {{"trireme-cluster", cluster.name()},
                                                           {"trireme-run", cluster.run}};
  for (const std::string& tag : split_list(cluster.options.cluster.tags)) {
    const size_t equals = tag.find('=');
    tags.emplace_back(tag.substr(0, equals), tag.substr(equals + 1));
  }
  return tags;
}

}  // namespace trireme::cloud
