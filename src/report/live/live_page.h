#pragma once
// The page of a running job: the report's curves and tables, and the state of its ranks. It asks its server for a new
// body every two seconds and replaces the old one. One file: its style and script are in it.

#include <cstdint>
#include <string>
#include <vector>

#include "report/html.h"

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

struct LiveState {
  bool running = true;
  int64_t step = 0;  ///< steps done
  int restarts = 0;
  std::vector<RankView> ranks;  ///< empty: unknown
};

/// The body's part that changes.
std::string render_live_body(const HtmlReport& report, const LiveState& state);
/// The complete page with a first body.
std::string render_live_page(const HtmlReport& report, const LiveState& state);

}  // namespace trireme
