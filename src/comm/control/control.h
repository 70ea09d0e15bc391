#pragma once
// The control channel (docs/design.md, decision 14): a TCP connection from every rank to the hub on rank 0, beside the
// data path and without MPI. It carries heartbeats, what each rank waits for, a launcher's stop requests and the loss
// of a rank; never tensor data. A heartbeat of about 150 bytes per rank goes each way, at most once a second. When a
// heartbeat is missing or nothing moves, the first ranks of all hosts try to reach each other, and one rule (blame.cc)
// says who is lost. Connections without the job's secret, which is never sent (secret.h), are closed and have no
// effect.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/control/liveness.h"
#include "comm/control/status_server.h"
#include "comm/heartbeat.h"
#include "comm/scalars.h"

namespace trireme {

struct ControlOptions {
  double hang_timeout = 10;  ///< seconds
  bool one_host = true;      ///< all ranks are on this host: the channel stays on its loopback interface
  std::string interface;     ///< otherwise the network interface of rank 0's host; empty: any
  std::string secret;        ///< of the launcher that may join, and of ranks without one below; empty: a new one
  std::vector<std::string> rank_secrets = {};  ///< by rank
  /// Both run on the channel's thread, once, when a rank is lost. After on_loss() the hub makes sure that all others
  /// have been informed; leave() then ends the process.
  std::function<void(const Loss&)> on_loss;
  std::function<void()> leave;
};

/// Rank 0's end. Its thread runs from construction to destruction.
class ControlHub {
 public:
  /// own: this rank's heartbeat; outlives the hub. Throws Error::comm, Error::config.
  ControlHub(int ranks, const std::string& host, const Heartbeat& own, ControlOptions options);
  /// Announces to the others that this rank leaves in order.
  ~ControlHub();
  /// Announces it now: the end of this rank is then not a loss to the others, and they stop watching. From any thread.
  void dismiss();
  const std::string& secret() const;
  std::vector<std::string> addresses() const;
  /// A launcher's request; empty before one.
  std::optional<StopRequest> stop_request() const;
  /// All ranks as of the last heartbeat. From any thread.
  std::vector<PeerView> views() const;
  /// The communication of this rank has failed: the hosts try their connections now. From any thread.
  void report_trouble();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// Another rank's end, or a launcher's.
class ControlClient {
 public:
  static constexpr int kLauncher = -1;
  /// Tries the addresses until one accepts. own: as above; nullptr for a launcher. Throws Error::comm with the reason
  /// for each address if none accepts within limit_seconds.
  ControlClient(const std::vector<std::string>& addresses, const std::string& secret, int rank, const std::string& host,
                const Heartbeat* own, ControlOptions options, double limit_seconds = 30);
  /// As of the hub.
  ~ControlClient();
  /// Asks the job to stop at its next step boundary.
  void request_stop(const StopRequest& request);
  /// See ControlHub.
  void report_trouble();

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

/// This rank's end, whichever it is.
class ControlChannel {
 public:
  /// Collective. Returns once all ranks have joined.
  ControlChannel(Scalars& scalars, const std::string& host, const Heartbeat& own, ControlOptions options);
  /// Where a launcher can join; empty on ranks other than 0.
  std::vector<std::string> addresses() const;
  /// See ControlHub; nothing on other ranks.
  void dismiss();
  std::optional<StopRequest> stop_request() const;
  std::vector<PeerView> views() const;
  void report_trouble();

 private:
  std::unique_ptr<ControlHub> hub_;
  std::unique_ptr<ControlClient> client_;
};

}  // namespace trireme
