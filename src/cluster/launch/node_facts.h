#pragma once
// Facts about a host, which are compared with the other hosts before ranks start.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "hub/place.h"

namespace trireme::launch {

// Detects processes that the kernel killed because memory ran out, by the kernel's count of such kills.

/// Kills on this host since its boot.
struct MemoryKills {
  int64_t in_group = 0;      ///< in the control groups around this process that limit memory
  int64_t on_host = 0;       ///< anywhere on the host
  int64_t memory_limit = 0;  ///< smallest limit of those groups in bytes; 0: none
};

MemoryKills read_memory_kills();

Json to_json(const MemoryKills& kills);
MemoryKills memory_kills_from_json(const Json& document);

/// What happened between two readings and what to do; empty if nothing happened.
std::string describe_memory_kills(const MemoryKills& before, const MemoryKills& after);

struct Interface {
  std::string name, address, network;  ///< "eth0", "10.0.0.5", "10.0.0.0/24"
  int64_t megabit = 0;                 ///< link rate; 0: unknown (virtual links)
};

struct NodeFacts {
  std::string host;                      ///< its own name
  std::string executable;                ///< XXH3 of the running program
  int cpus = 0;                          ///< that this process may use
  int sockets = 1;                       ///< with processors for this process
  double cpu_quota = 0;                  ///< in processors; 0: no limit
  int64_t memory = 0, memory_limit = 0;  ///< bytes: free; the cgroup's limit, 0: none
  MemoryKills memory_kills;
  int64_t disk_free = -1;             ///< free bytes in the run folder's file system; -1: not found
  int64_t shm_free = 0;               ///< free bytes in /dev/shm
  std::vector<std::string> features;  ///< subset of avx2 avx512f avx512_bf16 amx_bf16
  std::vector<Interface> interfaces;  ///< up and with an address, without loopback
  int infiniband_ports = 0;           ///< active and usable
  std::vector<std::pair<std::string, std::string>> unusable_ports;  ///< "mlx5_0:1", why MPI cannot use it
  std::string own_name_address;                                     ///< the address of its own name
  std::vector<std::pair<std::string, std::string>> files;           ///< path, "size xxh3" or why it cannot be read
  std::vector<std::string> unfetched;                               ///< names missing from its Hugging Face cache
  std::string hub_cache;                                            ///< folder of that cache
  bool hub_offline = false;                                         ///< it must not download from the hub
};

/// Interfaces of this host that are up and have an address, without loopback.
std::vector<Interface> list_interfaces();
/// InfiniBand ports that are up: "mlx5_0:1", rate in Mbit/s, and why MPI cannot use the port (no address from the
/// subnet manager, no verbs device that this process may open); empty: it can.
struct InfinibandPort {
  std::string name;
  int64_t megabit = 0;
  std::string unusable;
};
/// `root`: prefix of /sys and /dev, for tests.
std::vector<InfinibandPort> active_infiniband_ports(const std::string& root = "");

/// Facts about this host. `folder`: where disk space is needed (its nearest existing parent is measured); `files`:
/// compared between hosts: completely up to 64 MiB, otherwise size and 64 samples of 64 KiB.
NodeFacts gather_facts(const std::string& folder, const std::vector<std::string>& files);

/// Fills in the facts about the host's cache. variables: NAME=VALUE, set for ranks beside the host's own.
void check_cache(const hub::Named& named, const std::vector<std::string>& variables, NodeFacts& facts);

Json to_json(const NodeFacts& facts);
NodeFacts facts_from_json(const Json& document);

/// "size xxh3" of a file, or why it cannot be read.
std::string file_fingerprint(const std::string& path);

}  // namespace trireme::launch
