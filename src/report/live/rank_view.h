#pragma once
#include <cstdint>
#include <string>

namespace trireme {

/// A rank as rank 0 last heard of it.
struct RankView {
  int rank = 0;
  std::string host;
  std::string place;      ///< in the mesh: "data 0, tensor 1"; empty: its number says all
  int64_t step = 0;       ///< steps done
  std::string phase;      ///< "step", "evaluation", ...
  std::string waits_for;  ///< the collective operation that it waits for; empty: it computes
  double waited = 0;      ///< seconds, in it
  bool connected = true;  ///< false: it has left, or has not joined
};

}  // namespace trireme
