#pragma once
// Looks at every host before the first step and gives all problems at once, each with its fix.

#include <map>
#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/launch/node_facts.h"
#include "cluster/launch/node_session.h"

namespace trireme::launch {

struct PreflightRequest {
  std::vector<Placement> placement;
  std::string run_folder;                 ///< absolute; for disk space
  bool shares_run_folder = false;         ///< all ranks write into it
  std::vector<std::string> files;         ///< that must be the same on every host
  hub::Named named;                       ///< what the job has by name, to be in each host's cache or fetched into it
  std::vector<std::string> variables;     ///< NAME=VALUE that ranks are given
  std::string interface;                  ///< --interface: a name or a network; empty: picked
  int port = 0;                           ///< --port: one that must be free on every host; 0: any
  int64_t disk_bytes = int64_t{1} << 30;  ///< that must be free for the run folder
};

struct PreflightResult {
  std::vector<Problem> problems;
  std::vector<std::string> notes;
  std::string network;                              ///< "10.0.0.0/24", or the name asked for; empty on a single host
  std::string interface;                            ///< its interface when that has one name on all hosts
  bool infiniband = false;                          ///< active ports on every host
  std::vector<int> sockets;                         ///< of each host of the placement; 0: it did not answer
  std::map<std::string, MemoryKills> memory_kills;  ///< by host
};

/// Judges facts, index i of host i. Pure; everything but the network's reachability.
void judge_facts(const PreflightRequest& request, const std::vector<NodeFacts>& facts, PreflightResult& result);

/// A network that every host is on: IPv4 before IPv6, the fastest link first, bridges of containers last. `wanted` as
/// in the request. Returns the index of each host's interface; empty and a problem when there is none.
std::vector<size_t> pick_network(const std::string& wanted, const std::vector<NodeFacts>& facts,
                                 PreflightResult& result);

/// All of it, over the sessions: facts, clocks, free port, every host to every host.
PreflightResult run_preflight(const PreflightRequest& request, NodeSessions& sessions);

}  // namespace trireme::launch
