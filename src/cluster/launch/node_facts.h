#pragma once
// What a host must have in common with the others before ranks start on it.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/launch/memory_kills.h"
#include "hub/place.h"

namespace trireme::launch {

struct Interface {
  std::string name, address, network;  ///< "eth0", "10.0.0.5", "10.0.0.0/24"
  int64_t megabit = 0;                 ///< link rate; 0: not told (virtual links)
};

struct NodeFacts {
  std::string host;                      ///< its own name
  std::string executable;                ///< XXH3 of the running program
  int cpus = 0;                          ///< that this process may use
  int sockets = 1;                       ///< that have processors for this process
  double cpu_quota = 0;                  ///< processors' worth of time; 0: no limit
  int64_t memory = 0, memory_limit = 0;  ///< bytes: free; cgroup's bound, 0: none
  MemoryKills memory_kills;
  int64_t disk_free = -1;                   ///< bytes where the run folder is or will be; -1: no such file system
  int64_t shm_free = 0;                     ///< bytes in /dev/shm
  std::vector<std::string> features;        ///< of avx2 avx512f avx512_bf16 amx_bf16
  std::vector<Interface> interfaces;        ///< up, with an address, loopback left out
  int infiniband_ports = 0;                 ///< active ones that can be used
  std::vector<std::string> unusable_ports;  ///< "mlx5_0:1: why"
  std::string own_name_address;             ///< what its own name resolves to
  std::vector<std::pair<std::string, std::string>> files;  ///< path, "size xxh3" or the reason why it cannot be read
  std::vector<std::string> unfetched;                      ///< names that are not in its Hugging Face cache
  std::string hub_cache;                                   ///< that cache's folder
  bool hub_offline = false;                                ///< it may not ask the hub for them
};

/// Interfaces of this host that are up and have an address, loopback left out.
std::vector<Interface> list_interfaces();
/// InfiniBand ports that are up: "mlx5_0:1", its rate in Mbit/s, and why MPI cannot use it all the same (no address
/// from the subnet manager, no verbs device that this process may open); empty: it can.
struct InfinibandPort {
  std::string name;
  int64_t megabit = 0;
  std::string unusable;
};
/// `root`: in front of /sys and /dev, for tests.
std::vector<InfinibandPort> active_infiniband_ports(const std::string& root = "");

/// Facts about this host. `folder`: where disk space is asked for (its nearest existing parent counts); `files`: to be
/// compared between hosts: whole when up to 64 MiB, else size and 64 samples of 64 KiB.
NodeFacts gather_facts(const std::string& folder, const std::vector<std::string>& files);

/// Fills what facts say of the host's cache. variables: NAME=VALUE, as ranks are given them beside the host's own.
void look_into_cache(const hub::Named& named, const std::vector<std::string>& variables, NodeFacts& facts);

Json to_json(const NodeFacts& facts);
NodeFacts facts_from_json(const Json& document);

/// "size xxh3" of a file, or why it cannot be read.
std::string file_fingerprint(const std::string& path);

}  // namespace trireme::launch
