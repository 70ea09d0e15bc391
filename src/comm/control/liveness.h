#pragma once
// Decides when a rank is lost (docs/design.md, decision 14). Pure rules: the clock is an argument.

#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "comm/heartbeat.h"

namespace trireme {

/// A rank that has ended or hangs.
struct Loss {
  int rank = 0;
  std::string host;
  RankState last;          ///< its last report
  std::string reason;      ///< connection_closed(0.4), "no heartbeat for 10.0 s", ...
  std::string place = {};  ///< in the mesh, if that adds to its number (describe_place())
};

/// A rank as the hub last heard of it.
struct PeerView {
  int rank = 0;
  std::string host;
  RankState state;
  bool joined = false;  ///< false: it has left, or has not come yet
};

/// "rank 1 (data 0, tensor 1, pipeline 0) on node2 was lost (its connection closed 0.4 s after its last heartbeat) in
/// step 57, waiting for ..."
std::string describe(const Loss& loss);

/// The reason for a rank that left without a bye. since_heartbeat: the age of its last report in seconds.
std::string connection_closed(double since_heartbeat);

class Liveness {
 public:
  using Time = Clock::time_point;
  /// timeout: seconds. Ranks that have not joined are ignored.
  Liveness(int ranks, double timeout, Time now);

  void join(int rank, std::string host, Time now);
  void leave(int rank);
  void heard(int rank, const RankState& state, Time now);
  /// This process itself did not run for that long, so it received nothing meanwhile.
  void slept(Clock::duration time);
  std::vector<PeerView> views() const;
  bool joined(int rank) const { return ranks_[static_cast<size_t>(rank)].joined; }

  /// rank's connection closed without a bye.
  Loss closed(int rank, Time now) const;
  /// The first rank without heartbeats, or, if no rank makes progress while one waits for a collective, the rank that
  /// keeps the others waiting.
  std::optional<Loss> judge(Time now) const;

 private:
  struct Rank {
    bool joined = false;
    std::string host;
    RankState state;
    Time heard, moved, computed;  ///< last heartbeat, last progress, last sign of compute
  };
  std::optional<Loss> stalled(Time now) const;
  Loss loss(size_t rank, std::string reason) const;

  std::vector<Rank> ranks_;
  Clock::duration timeout_;
};

}  // namespace trireme
