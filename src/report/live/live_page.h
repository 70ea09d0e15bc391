#pragma once
// The page of a running job: the report's curves and tables, and the state of its ranks. It asks its server for a new
// body every two seconds and replaces the old one. One file: its style and script are in it.

#include <string>
#include <vector>

#include "report/html.h"
#include "report/live/rank_view.h"

namespace trireme {

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
