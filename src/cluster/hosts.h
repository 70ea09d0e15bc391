#pragma once
// The hosts of a job and the number of processes on each; their sources (hostfile, flag, Slurm) are in other files.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Host {
  std::string name;
  int slots = 0;       ///< processes it may get; 0: not given
  int max_slots = 0;   ///< hard limit (Open MPI's max_slots); 0: not given
  std::string origin;  ///< "hosts.txt:3", for messages
  std::string state;   ///< Slurm's state, if known
  int port = 0;        ///< of its sshd; 0: ssh's default
};

/// Identifies a host: the name without user@ and a trailing dot, in lower case; an IPv6 address in its shortest form.
std::string host_key(std::string_view name);

/// Throws Error::config naming both origins if a host is listed twice: one of the two slot counts would be lost.
void require_unique(std::span<const Host> hosts);

/// Throws Error::config with the origin unless this is a host's name or address, with or without user@.
void require_host_name(std::string_view name, std::string_view origin);

/// Parses --hosts: names, "name:slots", host list expressions, user@name; "a,b:2,n[1-3]:4". An IPv6 address with slots
/// is written in brackets: "[fd00::1]:2". Throws Error::config.
std::vector<Host> parse_host_argument(std::string_view text);

/// DeepSpeed's filters "host[:slot,slot]@host..."; the host part may be a host list expression. At most one of the two
/// may be set. Hosts keep their order. A slot list keeps that many slots of the host (only their number matters:
/// without GPUs slots are alike). Throws Error::config for both at once, a host that is not in `hosts`, a slot number
/// that the host does not have, or if nothing is left.
std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include, std::string_view exclude);

struct Placement {
  std::string host;
  int processes = 0;
};

struct PlacementRequest {
  int processes = 0;  ///< --np; 0: all slots of the hosts
  int per_host = 0;   ///< --ppn; 0: the hosts' slots; without slots 1 (see offer_ranks()), or with --np up to max_slots
  int gpus = 0;       ///< --gpus-per-node: ranks of a host without slots, with --np at most so many; 0: not asked for
};

/// Fills the hosts in order, without hosts that get no process. Throws Error::config if the processes do not fit on the
/// hosts, or per_host is above a host's slots or max_slots.
std::vector<Placement> place(std::span<const Host> hosts, PlacementRequest request);
/// Sets so many processes, one per socket or per GPU, for hosts without slots if the request has no number of
/// processes, either; index i is for host i. Returns whether any host got more than one.
bool offer_ranks(std::vector<Host>& hosts, std::span<const int> counts, PlacementRequest request);
int total_processes(std::span<const Placement> placement);

}  // namespace trireme
