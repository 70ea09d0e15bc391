#pragma once
// The hosts of a launch: preflight, waiting until they are ready again, removing failed ones, ending leftover
// processes.

#include <map>
#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "cluster/launch/job.h"
#include "cluster/launch/node_facts.h"
#include "cluster/launch/node_session.h"
#include "cluster/launch/preflight.h"
#include "cluster/launch/starter.h"
#include "cluster/launch/supervise.h"

namespace trireme::launch {

// The hosts that a job runs on, and the spare hosts.

/// The hosts of a launch in their order; the last `spares` of them are used only when another host fails.
class HostPool {
 public:
  /// Throws Error::config if all hosts are spares, and what place() throws.
  HostPool(std::vector<Host> hosts, int spares, PlacementRequest request);

  const std::vector<Placement>& placement() const { return placement_; }
  std::vector<std::string> names() const;  ///< of the placement
  size_t spares() const { return spares_.size(); }
  /// Whether no number of ranks was given.
  bool offers_ranks() const { return request_.processes == 0 && request_.per_host == 0 && request_.gpus == 0; }
  /// Places one process per socket, or per GPU, if no number was given; returns whether that changed the placement.
  bool offer_ranks(std::span<const int> counts);

  /// Removes these hosts permanently and replaces them by spares, if any are left. With too few spares nothing changes
  /// unless `may_shrink`. Returns whether the job can be placed on the remaining hosts.
  bool leave_out(const std::vector<std::string>& failed, bool may_shrink);

 private:
  std::vector<Host> hosts_, spares_;
  PlacementRequest request_;
  std::vector<Placement> placement_;
};

/// "h[1-3] 2 each, h9 1"
std::string to_text(const std::vector<Placement>& placement);

class LaunchHosts {
 public:
  /// request, job and starter: borrowed. id: of the launch, by which its processes are recognized on other hosts.
  /// Throws Error::config if the hosts cannot take the placement or this host's name is unusable.
  LaunchHosts(std::vector<Host> hosts, const LaunchRequest& request, const JobFacts& job, const Starter& starter,
              std::string id);

  const std::vector<Placement>& placement() const { return pool_.placement(); }
  size_t spares() const { return pool_.spares(); }
  const std::string& network() const { return network_; }      ///< "10.0.0.0/24", or --interface
  const std::string& interface() const { return interface_; }  ///< empty if the network has no interface name
  const RemoteOptions& remote() const { return remote_; }      ///< how the hosts are reached
  bool looked_at() const { return looked_; }
  /// Whether ranks can only use TCP between these hosts, as far as known.
  bool tcp_only() const { return placement().size() == 1 || (looked_ && !infiniband_); }

  bool uses_gpus() const { return gpus_; }  ///< as far as known

  /// Repeats until every host passes, or until no more hosts can be removed; then throws Error::config. Logs all
  /// problems.
  void preflight();
  /// Waits longer from restart to restart, then until every host passes preflight. Returns false if a stop was
  /// requested or the hosts did not return in time; both are logged.
  bool ready_again(int attempt, const StopSignals& signals);
  /// What keeps ranks from starting, one line per cause; empty: they have started.
  std::string start_problems();
  /// Removes the host of a lost rank, or of one of two that cannot reach each other (other: not negative), if a spare
  /// can replace it or the job may shrink.
  void drop_host_of(int rank, int other);
  /// Ends processes of the launch that are left on the hosts. daemons: also ends mpirun's daemons, of which mpirun may
  /// not know.
  void sweep(bool daemons);

 private:
  void check_own_name() const;
  std::vector<Problem> look();
  void check_starter(NodeSessions& sessions, PreflightResult& result) const;
  void check_health(NodeSessions& sessions, PreflightResult& result) const;
  bool leave_out(const std::vector<Problem>& problems, bool may_drop_cut);
  std::vector<std::string> cache_variables() const;
  std::string daemon_mark(const std::string& host) const;
  RemoteOptions remote_at_once() const;
  static void log_problems(const std::vector<Problem>& problems);
  void log_memory_kills(const std::string& host, const MemoryKills& now);

  const LaunchRequest& request_;
  const JobFacts& job_;
  const Starter& starter_;
  std::string id_;
  RemoteOptions remote_;
  HostPool pool_;
  std::string network_, interface_;
  bool looked_ = false, infiniband_ = false, gpus_ = false;
  std::map<std::string, MemoryKills> memory_kills_;  ///< by host, before the attempt; empty before the first preflight
};

}  // namespace trireme::launch
