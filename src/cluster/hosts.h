#pragma once
// The hosts of a job and how many processes each gets; where they come from (hostfile, flag, Slurm) is another file's
// business.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct Host {
  std::string name;
  int slots = 0;       ///< processes it may get; 0: not told
  int max_slots = 0;   ///< hard bound (Open MPI's max_slots); 0: not told
  std::string origin;  ///< "hosts.txt:3", for messages
  std::string state;   ///< Slurm's word, when Slurm told
  int port = 0;        ///< of its sshd; 0: ssh's own choice
};

/// What makes two entries one host: the name without user@ and a last dot, in lower case; an IPv6 address in its
/// shortest form.
std::string host_key(std::string_view name);

/// Throws Error::config naming both origins when a host is listed twice: one of the two slot counts would be lost.
void require_unique(std::span<const Host> hosts);

/// Throws Error::config with the origin for what is neither a host's name nor an address, with or without user@.
void require_host_name(std::string_view name, std::string_view origin);

/// What --hosts takes: names, "name:slots", host list expressions, user@name; "a,b:2,n[1-3]:4". An IPv6 address with
/// slots is written in brackets: "[fd00::1]:2". Throws Error::config.
std::vector<Host> parse_host_argument(std::string_view text);

/// DeepSpeed's filters "host[:slot,slot]@host..."; the host part may be a host list expression. At most one of the two
/// is not empty. Hosts keep their order. A slot list keeps that many slots of the host (processes are counted, not
/// numbered: without GPUs one slot is like another). Throws Error::config for both at once, a host that is not in
/// `hosts`, a slot number that the host does not have, or when nothing is left.
std::vector<Host> filter_hosts(std::vector<Host> hosts, std::string_view include, std::string_view exclude);

struct Placement {
  std::string host;
  int processes = 0;
};

struct PlacementRequest {
  int processes = 0;  ///< --np; 0: all that the hosts give
  int per_host = 0;   ///< --ppn; 0: the hosts' slots; not told: 1 (see offer_sockets()), or with --np up to max_slots
};

/// Fills the hosts in their order; hosts that get nothing are left out. Throws Error::config when the hosts cannot hold
/// the processes, or per_host is above a host's slots or max_slots.
std::vector<Placement> place(std::span<const Host> hosts, PlacementRequest request);
/// One process per socket, for hosts of the request that say nothing of processes where nobody else does: index i is of
/// host i. Returns whether any host got more than one.
bool offer_sockets(std::vector<Host>& hosts, std::span<const int> sockets, PlacementRequest request);
int total_processes(std::span<const Placement> placement);

}  // namespace trireme
