#pragma once
// Checks every host before the start and reports all problems together, each with its fix.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/launch/node_facts.h"
#include "cluster/launch/node_gpus.h"
#include "cluster/launch/node_session.h"

namespace trireme::launch {

/// What a rank of the job needs as its plan says.
struct RankMemory {
  uint64_t bytes = 0;  ///< of the rank that needs most
  std::string fits;    ///< where that is too much: options of a layout that fits; empty: none does
  std::string advice = "no layout of these hosts fits: use more hosts or a smaller model";  ///< without one that fits
  std::string refusal = {};  ///< such ranks cannot run it: why
};
/// For so many ranks, the same number on each host, and the bytes that each may use: of a GPU for each, or of their
/// host. Nullopt: cannot be planned here.
using RankMemoryPlan = std::function<std::optional<RankMemory>(int ranks, int hosts, uint64_t limit, bool on_gpus)>;

struct PreflightRequest {
  std::vector<Placement> placement;
  std::string run_folder;                 ///< absolute; for disk space
  bool shares_run_folder = false;         ///< all ranks write into it
  std::vector<std::string> files;         ///< must be the same on every host
  hub::Named named;                       ///< models and data that must be in each host's cache or be fetched
  std::vector<std::string> variables;     ///< NAME=VALUE for the ranks
  std::string interface;                  ///< --interface: a name or a network; empty: chosen
  int port = 0;                           ///< --port: must be free on every host; 0: any
  int64_t disk_bytes = int64_t{1} << 30;  ///< must be free for the run folder
  RankMemoryPlan rank_memory{};           ///< empty: unknown
  GpuWish gpus = GpuWish::none;
  int gpus_per_node = 0;      ///< --gpus-per-node: that each host must have; 0: not asked for
  bool offers_ranks = false;  ///< a host with one rank may get one for each of its GPUs
};

struct PreflightResult {
  std::vector<Problem> problems;
  std::vector<std::string> notes;
  std::string network;                              ///< "10.0.0.0/24", or the requested name; empty for a single host
  std::string interface;                            ///< its interface, if it has the same name on all hosts
  bool infiniband = false;                          ///< active ports on every host
  std::vector<int> sockets;                         ///< per host of the placement; 0: it did not answer
  bool gpus = false;                                ///< the ranks will compute on GPUs
  std::vector<int> gpu_ranks{};                     ///< one per GPU, by host of the placement; 0: unknown
  std::map<std::string, MemoryKills> memory_kills;  ///< by host
};

/// Judges facts, index i of host i: everything except the network's reachability. Pure.
void judge_facts(const PreflightRequest& request, const std::vector<NodeFacts>& facts, PreflightResult& result);

/// Chooses a network of all hosts: IPv4 before IPv6, the fastest link first, container bridges last. `wanted` as in the
/// request. Returns the index of each host's interface; empty, with a problem, if there is none.
std::vector<size_t> pick_network(const std::string& wanted, const std::vector<NodeFacts>& facts,
                                 PreflightResult& result);

/// All checks over the sessions: facts, clocks, free port, connections between all hosts.
PreflightResult run_preflight(const PreflightRequest& request, NodeSessions& sessions);

}  // namespace trireme::launch
