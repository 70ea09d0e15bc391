#pragma once
// This process as one rank of a job: starts MPI if a launcher started it, runs without MPI otherwise, and makes sure
// that N processes never train separately.

#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"
#include "comm/heartbeat.h"
#include "comm/host_map.h"
#include "comm/launcher.h"
#include "comm/start_watch.h"

namespace trireme {

/// Prefixes log messages with rank and host before MPI has started, if the launcher's variables have the rank. Process
/// does so anyway.
void name_this_rank(const Launcher& launcher);

class Process {
 public:
  /// No launcher: a job of one, without MPI. Otherwise opens and starts MPI. Throws Error::mismatch if the launcher
  /// started another number of processes than MPI sees (no MPI here, another MPI, a starter without PMI), Error::comm
  /// if MPI lacks MPI_THREAD_MULTIPLE. Sets the log's identity in a job of several.
  Process();
  /// limit: the longest start of MPI; after it this process exits with code 76 (comm/start_watch.h).
  explicit Process(const Launcher& launcher, const StartLimit& limit = {});
  /// MPI_Finalize, except while an exception unwinds: peers may wait, and the launcher ends them.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  const HostMap& hosts() const { return hosts_; }
  int local_rank() const { return hosts_.local_rank(rank()); }  ///< among the ranks on this host
  int local_size() const { return hosts_.local_size(rank()); }
  const std::string& host() const { return host_; }
  const Launcher& launcher() const { return launcher_; }

  /// The group for the thread that made this object; others take world().split(0, rank()) first.
  Communicator& world() { return *world_; }
  /// The heartbeat of the thread that made this object. world() reports to it, other groups after report_to().
  Heartbeat& heartbeat() { return heartbeat_; }
  const Heartbeat& heartbeat() const { return heartbeat_; }

  /// Runs body(), whose return value all ranks agree on. In a job of several ranks an exception ends the job: it is
  /// logged and every process exits with its code. A CommonError (comm/agreement.h) is logged once.
  int run(const std::function<int()>& body);
  /// Ends every process of the job at once. From any thread.
  [[noreturn]] void abort(int code) const;

 private:
  void start_mpi(const StartLimit& limit);

  Launcher launcher_;
  std::string host_;
  bool mpi_ = false;
  HostMap hosts_ = HostMap::one_host(1);
  Heartbeat heartbeat_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace trireme
