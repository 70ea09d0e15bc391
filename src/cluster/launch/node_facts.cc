#include "cluster/launch/node_facts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/affinity.h"
#include "base/cgroup.h"
#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace trireme::launch {
namespace {

std::string first_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

int64_t free_bytes(const std::string& path) {
  struct statvfs info {};
  if (statvfs(path.c_str(), &info) != 0) return -1;
  return static_cast<int64_t>(info.f_bavail * info.f_frsize);
}

/// Free bytes of the folder, or of its nearest existing parent.
int64_t free_bytes_for(const std::string& folder) {
  std::filesystem::path path = std::filesystem::absolute(folder);
  std::error_code ignored;
  while (!std::filesystem::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return free_bytes(path);
}

int64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  for (std::string key, unit; file >> key;) {
    int64_t value = 0;
    file >> value;
    if (key == "MemAvailable:") return value * 1024;
    std::getline(file, unit);
  }
  return 0;
}

std::vector<std::string> cpu_features() {
  std::ifstream file("/proc/cpuinfo");
  std::vector<std::string> found;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    for (const char* feature : {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}) {
      if ((line + " ").find(std::string(" ") + feature + " ") != std::string::npos) found.emplace_back(feature);
    }
    break;
  }
  return found;
}

/// "10.0.0.0/24" from an address and its mask.
std::string network_of(const sockaddr_in& address, const sockaddr_in& mask) {
  in_addr network{};
  network.s_addr = address.sin_addr.s_addr & mask.sin_addr.s_addr;
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &network, text.data(), text.size());
  return fmt::format("{}/{}", text.data(), std::popcount(mask.sin_addr.s_addr));
}

std::string network_of(const sockaddr_in6& address, const sockaddr_in6& mask) {
  in6_addr network{};
  int bits = 0;
  for (size_t i = 0; i < 16; ++i) {
    network.s6_addr[i] = address.sin6_addr.s6_addr[i] & mask.sin6_addr.s6_addr[i];
    bits += std::popcount(mask.sin6_addr.s6_addr[i]);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &network, text.data(), text.size());
  return fmt::format("{}/{}", text.data(), bits);
}

/// Whether the link's driver reports a meaningless rate: virtual Ethernet pairs report 10 Gb/s.
bool is_pretended(const std::string& interface) {
  const int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) return false;
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&info);
  const bool reported = ioctl(any, SIOCETHTOOL, &request) == 0;
  close(any);
  return reported && std::string_view(info.driver) == "veth";
}

std::string own_address() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(name.data(), nullptr, &hints, &found) != 0) return "";
  std::array<char, 256> text{};
  getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  freeaddrinfo(found);
  return text.data();
}

}  // namespace

std::vector<Interface> list_interfaces() {
  std::vector<Interface> interfaces;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return interfaces;
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    Interface found{entry->ifa_name, "", "", 0};
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto& address = *reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
      found.network = network_of(address, *reinterpret_cast<const sockaddr_in*>(entry->ifa_netmask));
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto& address = *reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) continue;
      inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
      found.network = network_of(address, *reinterpret_cast<const sockaddr_in6*>(entry->ifa_netmask));
    } else {
      continue;
    }
    found.address = text.data();
    const std::string speed = first_word("/sys/class/net/" + found.name + "/speed");
    if (!is_pretended(found.name) && !speed.empty() && speed.front() != '-') found.megabit = std::atoll(speed.c_str());
    interfaces.push_back(std::move(found));
  }
  freeifaddrs(first);
  return interfaces;
}

namespace {

/// Why no verbs device of this adapter can be opened; empty: one can.
std::string missing_verbs(const std::string& root, const std::string& adapter) {
  std::error_code error;
  for (const auto& verbs : std::filesystem::directory_iterator(root + "/sys/class/infiniband_verbs", error)) {
    if (first_word(verbs.path() / "ibdev") != adapter) continue;
    const std::string device = "/dev/infiniband/" + verbs.path().filename().string();
    if (access((root + device).c_str(), R_OK | W_OK) == 0) return "";
    return fmt::format("cannot open {}: {}", device, std::strerror(errno));
  }
  return "it has no verbs device (is ib_uverbs loaded?)";
}

}  // namespace

std::vector<InfinibandPort> active_infiniband_ports(const std::string& root) {
  std::vector<InfinibandPort> active;
  std::error_code error;
  for (const auto& device : std::filesystem::directory_iterator(root + "/sys/class/infiniband", error)) {
    const std::string adapter = device.path().filename();
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", error)) {
      std::ifstream file(port.path() / "state");
      std::string number, state;
      if (!(file >> number >> state) || state != "ACTIVE") continue;
      // "200 Gb/sec (4X HDR)"
      const double gigabit = std::atof(first_word(port.path() / "rate").c_str());
      const bool ethernet = first_word(port.path() / "link_layer") == "Ethernet";
      const std::string lid = first_word(port.path() / "lid");
      const bool no_address = !ethernet && (lid == "0x0" || lid == "0");
      active.push_back(
          {adapter + ":" + port.path().filename().string(), static_cast<int64_t>(gigabit * 1000),
           no_address ? "it got no address from the subnet manager (LID 0)" : missing_verbs(root, adapter)});
    }
  }
  return active;
}

std::string file_fingerprint(const std::string& path) {
  constexpr size_t kWhole = size_t{64} << 20, kSamples = 64, kSample = size_t{64} << 10;
  try {
    const MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() <= kWhole) return fmt::format("{} {}", bytes.size(), hex64(xxh3(bytes)));
    std::string hashes;
    for (size_t i = 0; i < kSamples; ++i) {
      hashes += hex64(xxh3(bytes.subspan((bytes.size() - kSample) / (kSamples - 1) * i, kSample)));
    }
    return fmt::format("{} {}", bytes.size(), hex64(xxh3(std::as_bytes(std::span(hashes)))));
  } catch (const Error& e) {
    return e.what();
  }
}

NodeFacts gather_facts(const std::string& folder, const std::vector<std::string>& files) {
  NodeFacts facts;
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  facts.host = name.data();
  facts.executable = file_fingerprint("/proc/self/exe");
  facts.cpus = static_cast<int>(std::thread::hardware_concurrency());
  facts.sockets = std::max(1, static_cast<int>(sockets_of(sockets(), inherited_cpus())));
  const CgroupLimits limits = read_cgroup_limits();
  facts.cpu_quota = limits.cpus;
  facts.memory_limit = limits.memory_bytes;
  facts.memory = available_memory();
  facts.memory_kills = read_memory_kills();
  facts.disk_free = free_bytes_for(folder);
  facts.shm_free = free_bytes("/dev/shm");
  facts.features = cpu_features();
  facts.interfaces = list_interfaces();
  for (const InfinibandPort& port : active_infiniband_ports()) {
    facts.infiniband_ports += port.unusable.empty() ? 1 : 0;
    if (!port.unusable.empty()) facts.unusable_ports.emplace_back(port.name, port.unusable);
  }
  facts.own_name_address = own_address();
  for (const std::string& file : files) facts.files.emplace_back(file, file_fingerprint(file));
  return facts;
}

void check_cache(const hub::Named& named, const std::vector<std::string>& variables, NodeFacts& facts) {
  const auto environment = [&](const char* name) -> const char* {
    for (const std::string& variable : variables) {
      if (variable.starts_with(name) && variable[std::strlen(name)] == '=')
        return variable.c_str() + std::strlen(name) + 1;
    }
    return std::getenv(name);
  };
  const hub::Settings settings = hub::read_settings(environment);
  facts.unfetched = still_to_fetch(named, settings);
  facts.hub_cache = settings.cache;
  facts.hub_offline = settings.offline;
}

Json to_json(const NodeFacts& facts) {
  Json interfaces = Json::array();
  for (const Interface& i : facts.interfaces) interfaces.push_back({i.name, i.address, i.network, i.megabit});
  return {{"host", facts.host},
          {"executable", facts.executable},
          {"cpus", facts.cpus},
          {"sockets", facts.sockets},
          {"cpu_quota", facts.cpu_quota},
          {"memory", facts.memory},
          {"memory_limit", facts.memory_limit},
          {"memory_kills", to_json(facts.memory_kills)},
          {"disk_free", facts.disk_free},
          {"shm_free", facts.shm_free},
          {"features", facts.features},
          {"interfaces", interfaces},
          {"infiniband_ports", facts.infiniband_ports},
          {"unusable_ports", facts.unusable_ports},
          {"own_name_address", facts.own_name_address},
          {"files", facts.files},
          {"unfetched", facts.unfetched},
          {"hub_cache", facts.hub_cache},
          {"hub_offline", facts.hub_offline}};
}

NodeFacts facts_from_json(const Json& document) {
  NodeFacts facts;
  document.at("host").get_to(facts.host);
  document.at("executable").get_to(facts.executable);
  document.at("cpus").get_to(facts.cpus);
  document.at("sockets").get_to(facts.sockets);
  document.at("cpu_quota").get_to(facts.cpu_quota);
  document.at("memory").get_to(facts.memory);
  document.at("memory_limit").get_to(facts.memory_limit);
  facts.memory_kills = memory_kills_from_json(document.at("memory_kills"));
  document.at("disk_free").get_to(facts.disk_free);
  document.at("shm_free").get_to(facts.shm_free);
  document.at("features").get_to(facts.features);
  for (const Json& entry : document.at("interfaces")) {
    facts.interfaces.push_back({entry.at(0), entry.at(1), entry.at(2), entry.at(3)});
  }
  document.at("infiniband_ports").get_to(facts.infiniband_ports);
  document.at("unusable_ports").get_to(facts.unusable_ports);
  document.at("own_name_address").get_to(facts.own_name_address);
  document.at("files").get_to(facts.files);
  document.at("unfetched").get_to(facts.unfetched);
  document.at("hub_cache").get_to(facts.hub_cache);
  document.at("hub_offline").get_to(facts.hub_offline);
  return facts;
}

MemoryKills read_memory_kills() {
  const CgroupLimits limits = read_cgroup_limits();
  return {limits.oom_kills, memory_kills_on_host(), limits.memory_bytes};
}

Json to_json(const MemoryKills& kills) { return {kills.in_group, kills.on_host, kills.memory_limit}; }

MemoryKills memory_kills_from_json(const Json& document) { return {document.at(0), document.at(1), document.at(2)}; }

std::string describe_memory_kills(const MemoryKills& before, const MemoryKills& after) {
  constexpr const char* kFix = "lower batch.micro or the ranks on this host";
  if (after.in_group > before.in_group) {
    return fmt::format(
        "out of memory: the kernel killed {} of a control group with a limit of {:.2f} GiB; {}, or raise that limit",
        count_text(after.in_group - before.in_group, "process"), static_cast<double>(after.memory_limit) / (1 << 30),
        kFix);
  }
  if (after.on_host > before.on_host) {
    return fmt::format("out of memory: the kernel killed {} on this host during the run; {}",
                       count_text(after.on_host - before.on_host, "process"), kFix);
  }
  return "";
}

}  // namespace trireme::launch
