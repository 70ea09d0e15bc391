#pragma once
// The other ranks of the job, watched through the control channel (docs/design.md, decision 14): when one is lost or
// hangs, this process reports it, writes RUN/status.json and leaves with code 76, whatever its main thread waits for.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/control/control.h"
#include "comm/mesh.h"
#include "comm/process.h"
#include "config/config.h"
#include "tensor/device_network.h"

namespace trireme {

/// Records in RUN/status.json that a rank was lost, as one of the others (`rank`) sees it. One rank writes: rank 0, or,
/// if that is the lost one, the lowest that finds no verdict there after a moment, in which a rank 0 that is only cut
/// off gives its own. owner: lock_note() of the job; another owner's status is never replaced. likely: what may have
/// ended the rank, added to the message. Throws Error::io, Error::data.
void record_loss(const std::string& run_dir, const std::string& owner, int rank, const Loss& loss,
                 const std::string& likely = {}, int64_t own_step = 0);

/// What may have ended a rank without a word, to be added to a message. memory_kills: processes that the kernel has
/// killed on this host since the job began because memory ran out.
std::string likely_end(const Loss& loss, const std::string& own_host, int64_t memory_kills);

class PeerWatch {
 public:
  /// Collective. Watches for the lifetime of the object. A single rank without a launcher has no watch. mesh: as
  /// resolve_mesh() gave it. progress: this rank's; the groups of `process` report to it.
  PeerWatch(const Config& config, const MeshShape& mesh, const Process& process, Scalars& scalars,
            Heartbeat& heartbeat);
  ~PeerWatch();

  /// The address where a launcher can join, on rank 0.
  std::vector<std::string> addresses() const;
  /// The stop request of a launcher; nullopt before there is one, and on other ranks than 0.
  std::optional<StopRequest> stop_request() const;
  /// What rank 0 last heard of every rank; empty on other ranks, and without a watch.
  std::vector<PeerView> views() const;
  /// Lets the ranks leave without being reported lost. From any thread of rank 0.
  void dismiss();
  /// After communication has failed: gives the watch time to find the lost rank or connection; it then ends the
  /// process.
  void wait_for_verdict();
  /// While it is there: what connects this rank's device with the others'. When a rank is lost, its connections are
  /// aborted before this process leaves, in two seconds at most.
  class Connections {
   public:
    /// network: nullptr: nothing does.
    Connections(PeerWatch& peers, DeviceNetwork* network);
    ~Connections();
    Connections(const Connections&) = delete;
    Connections& operator=(const Connections&) = delete;

   private:
    PeerWatch& peers_;
  };

 private:
  class Abort;
  const std::shared_ptr<Abort> abort_;
  Heartbeat& heartbeat_;
  const bool one_host_;
  std::optional<ControlChannel> channel_;
};

}  // namespace trireme
