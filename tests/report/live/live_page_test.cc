#include "report/live/live_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

HtmlReport example() {
  HtmlReport report;
  report.title = "run <1>";
  report.log.total_steps = 120;
  for (int64_t step = 10; step <= 100; step += 10) {
    Metrics m;
    m.step = step;
    m.loss = 5;
    m.ms_per_step = 20;
    m.memory_bytes = 3'000'000'000;
    report.log.steps.push_back(m);
  }
  report.log.checkpoints = {{.step = 50, .path = "run/step-00000050", .seconds = 0.5, .best = true}};
  report.log.samples = {{100, "In the", " <beginning>"}};
  return report;
}

TEST(LivePage, IsOneFileThatAsksItsOwnServerOnly) {
  const std::string page = render_live_page(example(), {});
  for (const char* outside : {"http:", "https:", "src=", "<link", "@import", "url("})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_THAT(page, HasSubstr("fetch('body' + location.search"));
  EXPECT_THAT(page, HasSubstr("<title>run &lt;1&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("<main>\n" + render_live_body(example(), {}) + "</main>"));
}

TEST(LivePage, ShowsCurvesSnapshotsAndSamples) {
  const std::string body = render_live_body(example(), {.running = true, .step = 104, .restarts = 2, .ranks = {}});
  EXPECT_THAT(body, HasSubstr("<p>Training at step 104 of 120, after 2 restarts</p>"));
  for (const char* title : {"Loss", "Throughput", "Learning rate", "Step time", "Memory of rank 0"})
    EXPECT_THAT(body, HasSubstr("aria-label=\"" + std::string(title) + "\"")) << title;
  EXPECT_THAT(body, HasSubstr("<tr><td>50 (best)</td><td>0.5 s</td><td>run/step-00000050</td></tr>"));
  EXPECT_THAT(body, HasSubstr("<b>In the</b> &lt;beginning&gt;"));
  EXPECT_THAT(body, Not(HasSubstr("<h2>Ranks</h2>")));
  EXPECT_THAT(render_live_body(example(), {.running = false, .step = 120, .ranks = {}}),
              HasSubstr("<p>Ended at step 120 of 120</p>"));
}

TEST(LivePage, ShowsWhereEachRankIsAndWhatItDoes) {
  LiveState state;
  state.ranks = {
      {.rank = 0, .host = "a", .place = "data 0, tensor 0", .step = 7, .phase = "step", .waits_for = {}},
      {.rank = 1,
       .host = "<b>",
       .place = "data 0, tensor 1",
       .step = 7,
       .phase = "step",
       .waits_for = "the sum of gradients",
       .waited = 1.25},
      {.rank = 2, .host = "c", .place = {}, .step = 3, .phase = "step", .waits_for = {}, .connected = false}};
  const std::string body = render_live_body(example(), state);
  EXPECT_THAT(body, HasSubstr("<tr><td>0</td><td>a</td><td>data 0, tensor 0</td><td>7</td><td>step</td></tr>"));
  EXPECT_THAT(body, HasSubstr("<td>&lt;b&gt;</td>"));
  EXPECT_THAT(body, HasSubstr("step, waits for the sum of gradients since 1.2 s"));
  EXPECT_THAT(body, HasSubstr("<td class=\"lost\">not connected</td>"));
}

TEST(LivePage, OfManyRanksShowsThoseToLookAtFirst) {
  LiveState state;
  for (int rank = 0; rank < 1000; ++rank)
    state.ranks.push_back({.rank = rank,
                           .host = "h",
                           .place = {},
                           .step = rank == 700 ? 5 : 9,
                           .phase = "step",
                           .waits_for = rank == 800 ? "x" : "",
                           .waited = rank == 800 ? 3.0 : 0.0,
                           .connected = rank != 900});
  const std::string body = render_live_body(example(), state);
  EXPECT_THAT(body, HasSubstr("32 of 1000 ranks: lost ones"));
  EXPECT_LT(body.find("<td>900</td>"), body.find("<td>700</td>"));
  EXPECT_LT(body.find("<td>700</td>"), body.find("<td>800</td>"));
  EXPECT_THAT(body, Not(HasSubstr("<td>999</td>")));
}

}  // namespace
}  // namespace trireme
