#include "report/live/live_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "report/svg_chart.h"

namespace trireme {
namespace {

constexpr size_t kMostRanks = 32;
constexpr size_t kMostSnapshots = 10;

constexpr std::string_view kLiveStyle = R"(
.bar { display: flex; flex-wrap: wrap; gap: 8px 16px; align-items: center; margin: 8px 0; }
.bar button { font: inherit; padding: 4px 12px; border: 1px solid var(--soft); border-radius: 6px; color: var(--text);
              background: var(--card); cursor: pointer; }
.bar button:focus-visible { outline: 3px solid var(--first); outline-offset: 2px; }
.lost { color: var(--second); font-weight: 600; } .scroll { overflow-x: auto; }
)";

constexpr std::string_view kScript = R"(
(() => {
  const main = document.querySelector('main'), note = document.getElementById('note');
  const button = document.getElementById('pause');
  let paused = false, answered = new Date();
  const toggle = () => {
    paused = !paused;
    button.textContent = paused ? 'Continue updates' : 'Pause updates';
    button.setAttribute('aria-pressed', String(paused));
    if (paused) note.textContent = 'paused at ' + answered.toLocaleTimeString();
  };
  button.addEventListener('click', toggle);
  const refresh = async () => {
    try {
      const answer = paused ? null : await fetch('body' + location.search, {cache: 'no-store'});
      if (answer && !answer.ok) throw new Error('answer ' + answer.status);
      const text = answer ? await answer.text() : '';
      if (answer && !paused) {
        main.innerHTML = text;
        answered = new Date();
        note.textContent = 'updated at ' + answered.toLocaleTimeString();
        note.className = 'soft';
      }
    } catch (error) {
      note.textContent = 'no answer since ' + answered.toLocaleTimeString() + ': the job has ended, or cannot be reached';
      note.className = 'lost';
    }
    setTimeout(refresh, document.hidden ? 10000 : 2000);
  };
  setTimeout(refresh, 2000);
})();
)";

std::string describe(const RankView& rank) {
  if (!rank.connected) return "not connected";
  if (rank.waits_for.empty()) return rank.phase;
  return fmt::format("{}, waits for {} since {:.1f} s", rank.phase, rank.waits_for, rank.waited);
}

/// All ranks, or of many those to look at first: lost, behind the others, waiting longest.
std::string ranks_table(std::vector<RankView> ranks) {
  if (ranks.empty()) return {};
  const size_t all = ranks.size();
  std::string out = "<h2>Ranks</h2>\n";
  if (all > kMostRanks) {
    std::ranges::stable_sort(ranks, [](const RankView& a, const RankView& b) {
      if (a.connected != b.connected) return !a.connected;
      return a.step != b.step ? a.step < b.step : a.waited > b.waited;
    });
    ranks.resize(kMostRanks);
    out += fmt::format(
        "<p class=\"soft\">{} of {}: lost ones, then those behind the others, then those that wait "
        "longest</p>\n",
        kMostRanks, count_text(static_cast<int64_t>(all), "rank"));
  }
  const bool places = std::ranges::any_of(ranks, [](const RankView& rank) { return !rank.place.empty(); });
  out +=
      fmt::format("<div class=\"scroll\"><table>\n<tr><th>rank</th><th>host</th>{}<th>step</th><th>state</th></tr>\n",
                  places ? "<th>place</th>" : "");
  for (const RankView& rank : ranks) {
    out += fmt::format("<tr><td>{}</td><td>{}</td>{}<td>{}</td><td{}>{}</td></tr>\n", rank.rank, escape_html(rank.host),
                       places ? fmt::format("<td>{}</td>", escape_html(rank.place)) : "", rank.step,
                       rank.connected ? "" : " class=\"lost\"", escape_html(describe(rank)));
  }
  return out + "</table></div>\n";
}

std::string snapshots_table(const std::vector<CheckpointEvent>& snapshots) {
  if (snapshots.empty()) return {};
  std::string out = "<h2>Snapshots</h2>\n<table>\n<tr><th>step</th><th>written in</th><th>folder</th></tr>\n";
  const size_t count = std::min(snapshots.size(), kMostSnapshots);
  for (size_t i = 0; i < count; ++i) {
    const CheckpointEvent& event = snapshots[snapshots.size() - 1 - i];
    out += fmt::format("<tr><td>{}{}</td><td>{:.1f} s</td><td>{}</td></tr>\n", event.step, event.best ? " (best)" : "",
                       event.seconds, escape_html(event.path));
  }
  return out + "</table>\n";
}

}  // namespace

std::string render_live_body(const HtmlReport& report, const LiveState& state) {
  std::string out =
      fmt::format("<p>{} at step {} of {}{}</p>\n", state.running ? "Training" : "Ended", state.step,
                  report.log.total_steps, state.restarts > 0 ? ", after " + count_text(state.restarts, "restart") : "");
  return out + html_results(report) + ranks_table(state.ranks) + snapshots_table(report.log.checkpoints) +
         html_details(report);
}

std::string render_live_page(const HtmlReport& report, const LiveState& state) {
  return html_head(report.title, kLiveStyle) +
         fmt::format(
             "<h1>{}</h1>\n<div class=\"bar\"><button id=\"pause\" type=\"button\" aria-pressed=\"false\">Pause "
             "updates</button><span id=\"note\" class=\"soft\" role=\"status\"></span></div>\n<main>\n",
             escape_html(report.title)) +
         render_live_body(report, state) + fmt::format("</main>\n<script>{}</script>\n</body>\n</html>\n", kScript);
}

}  // namespace trireme
