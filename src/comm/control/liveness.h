#pragma once
// Decides when a rank is lost (docs/design.md, decision 14). Pure rules: the clock is an argument.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "comm/heartbeat.h"

namespace trireme {

// Who is to blame when ranks fall silent or nothing moves: one rank, two that cannot reach each other, or none. A pure
// rule over what rank 0 knows: when it last heard each rank, what each does, and which hosts reached each other when
// they were last asked to try (comm/control/lookout.h).

/// A rank as rank 0 last heard of it; that of rank 0 itself is never silent.
struct Standing {
  std::string host;
  bool joined = true;
  bool waits = false;  ///< for other ranks
  double silent = 0;   ///< seconds since its last heartbeat
  double still = 0;    ///< seconds since it last made progress
  int64_t step = 0;
};

/// What a rank found when it tried to connect to ranks of other hosts.
struct Sighting {
  int from = 0;
  std::vector<std::pair<int, std::string>> failed = {};  ///< ranks to which no connection could be made, and why
  std::vector<int> answered = {};                        ///< ranks that run and answered; the others are only reached
};

struct Evidence {
  std::vector<Standing> ranks;  ///< by rank
  std::vector<Sighting> sightings = {};
  std::set<std::pair<int, int>> never = {};  ///< connections (from, to) that fail although the job has made steps
  double timeout = 10;                       ///< seconds without a heartbeat, or without progress
  double stall_timeout = 10;                 ///< the same without progress if no connection fails
  double still = 0;                          ///< seconds since any rank has computed or made progress
  bool trouble = false;                      ///< the communication of a rank has failed: connections are judged at once
};

struct Blame {
  int rank = -1;   ///< negative: no rank can be blamed
  int other = -1;  ///< not negative: the connection between the two is to blame; the lower of them
  std::string reason;
};

/// Nothing while there is no reason to end the job.
std::optional<Blame> blame(const Evidence& evidence);

/// What a rank concludes that has not heard rank 0 for `silent` seconds, from what ranks of other hosts answered when
/// it asked them, `silent_when_asked` seconds after it last heard rank 0: an answer is about that moment, not about
/// now.
struct WitnessReport {
  bool answered = false;
  double hub_silent = 0;  ///< seconds since that rank heard rank 0
};
Blame blame_for_silent_hub(int own_rank, double silent, double silent_when_asked,
                           const std::vector<WitnessReport>& witnesses);

/// Why the job ends: a rank that has ended or hangs, two that cannot reach each other, or no rank that can be named.
struct Loss {
  int rank = 0;  ///< negative: no rank can be blamed
  std::string host = {};
  RankState last = {};          ///< its last report
  std::string reason = {};      ///< connection_closed(0.4), "no heartbeat for 10.0 s", ...
  std::string place = {};       ///< in the mesh, if that adds to its number (describe_place())
  int other = -1;               ///< not negative: the connection between the two is lost
  std::string other_host = {};  ///< of `other`
  bool ended = false;           ///< seen here: its connection has closed
};

/// A rank as the hub last heard of it.
struct PeerView {
  int rank = 0;
  std::string host;
  RankState state;
  bool joined = false;  ///< false: it has left, or has not come yet
};

/// "rank 1 (data 0, tensor 1, pipeline 0) on node2 was lost (its connection closed 0.4 s after its last heartbeat) in
/// step 57, waiting for ..."; "rank 2 on h3 and rank 1 on h2 cannot reach each other (...)"; "no rank can be blamed:
/// ..."
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
  /// What is known about the ranks; the caller adds what hosts found out about each other.
  Evidence evidence(Time now) const;
  /// blame() as a loss.
  std::optional<Loss> judge(const Evidence& evidence) const;
  std::optional<Loss> judge(Time now) const { return judge(evidence(now)); }
  /// Time to let the hosts try their connections: half of the timeout is over without a heartbeat, or without progress
  /// while all ranks wait; or all of it while some do.
  bool suspects(const Evidence& evidence) const;
  /// The first rank of each host that has joined.
  std::vector<int> first_of_hosts() const;

 private:
  struct Rank {
    bool joined = false;
    std::string host;
    RankState state;
    Time heard, moved, computed;  ///< last heartbeat, last progress, last sign of compute
  };
  Loss loss(size_t rank, std::string reason) const;

  std::vector<Rank> ranks_;
  Clock::duration timeout_;
};

}  // namespace trireme
