#pragma once
// Who is to blame when ranks fall silent or nothing moves: one rank, two that cannot reach each other, or none. A pure
// rule over what rank 0 knows: when it last heard each rank, what each does, and which hosts reached each other when
// they were last asked to try (comm/control/lookout.h).

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

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

}  // namespace trireme
