#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

ComparedRun run(const std::string& name, int64_t batch) {
  ComparedRun run{name, {}};
  for (int64_t step = 10; step <= 100; step += 10) {
    Metrics m;
    m.step = step;
    m.loss = 8 - std::log(static_cast<double>(step * batch));
    m.tokens = static_cast<uint64_t>(step * batch * 1000);
    m.tokens_per_second = 5000;
    m.seconds_run = static_cast<double>(step) * 36;
    run.log.steps.push_back(m);
  }
  run.log.evaluations = {{50, std::nullopt, 4.5, 1, true}, {100, std::nullopt, 4.25, 1, true}};
  run.log.attempts = {{0, 100, 1000, 1060, "done"}};
  run.log.configuration = {{"batch.global", std::to_string(batch)}, {"optim.clip", "1"}, {"run.dir", name}};
  run.log.facts = {{"model", "4 layers"}};
  run.log.total_steps = 120;
  return run;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// x of the last point of the first line of a series that follows `after`, in pixels from the left.
double last_x(const std::string& page, const std::string& after, int series) {
  const size_t chart = page.find(after);
  const size_t line = page.find("<path class=\"line series-" + std::to_string(series) + "\"", chart);
  const std::string path = page.substr(line, page.find("/>", line) - line);
  return std::stod(path.substr(path.rfind('L') + 1));
}

TEST(Comparison, IsOneFileWithoutAnythingFromOutside) {
  const std::string page = render_comparison({run("a", 1), run("b", 2)});
  for (const char* outside : {"http:", "https:", "src=", "<script", "<link", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Comparison, DrawsTheRunsOverEachOtherByStepTokensAndTime) {
  const std::string page = render_comparison({run("a", 1), run("b", 2)});
  EXPECT_EQ(count(page, "aria-label=\"Training loss\""), 3u);
  EXPECT_EQ(count(page, "aria-label=\"Validation loss\""), 3u);
  EXPECT_EQ(count(page, "aria-label=\"Memory of rank 0\""), 0u);  // no record has it
  // After the same steps b has seen twice as many tokens: only by tokens its curve is longer than a's.
  EXPECT_EQ(last_x(page, "chart wide by-step", 0), last_x(page, "chart wide by-step", 1));
  EXPECT_LT(last_x(page, "chart wide by-tokens", 0), last_x(page, "chart wide by-tokens", 1));
  EXPECT_EQ(last_x(page, "chart wide by-time", 0), last_x(page, "chart wide by-time", 1));
  EXPECT_THAT(page, HasSubstr("<title>a: 0.5 4.5</title>"));  // the evaluation at step 50, by hours
}

TEST(Comparison, ShowsWhatDiffersOnly) {
  const std::string page = render_comparison({run("a", 1), run("b", 2)});
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">batch.global</th><td>1</td><td>2</td>"));
  EXPECT_THAT(page, Not(HasSubstr("<th scope=\"row\">optim.clip</th>")));
  EXPECT_THAT(page, Not(HasSubstr("<th scope=\"row\">run.dir</th>")));
  EXPECT_THAT(page, HasSubstr("1 other option has the same value, not counting run.dir."));
  EXPECT_THAT(page, Not(HasSubstr("Facts that differ")));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">best validation loss</th><td>4.2500 at step 100</td>"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">steps</th><td>100 of 120</td>"));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">tokens trained on</th><td>100k</td><td>200k</td>"));
  EXPECT_THAT(render_comparison({run("a", 1), run("b", 1)}),
              HasSubstr("All options have the same values, not counting run.dir."));
}

TEST(Comparison, SaysSoWhereALogHasNoOptions) {
  ComparedRun old = run("old", 1);
  old.log.configuration.clear();
  const std::string page = render_comparison({old, run("b", 2)});
  EXPECT_THAT(page, HasSubstr("The log of old has no options: an older version wrote it."));
  EXPECT_THAT(page, HasSubstr("<th scope=\"row\">optim.clip</th><td>not recorded</td><td>1</td>"));
}

TEST(Comparison, NamesTheUnitsWhereTheyDiffer) {
  ComparedRun rows = run("b", 1);
  rows.log.unit = LossUnit::row;
  EXPECT_THAT(render_comparison({run("a", 1), rows}),
              HasSubstr("<th scope=\"row\">unit of the loss</th><td>nats per token</td><td>nats per row</td>"));
}

TEST(Comparison, EscapesNames) {
  const std::string page = render_comparison({run("<a>", 1), run("b&c", 2)});
  EXPECT_THAT(page, HasSubstr("<th scope=\"col\">&lt;a&gt;</th><th scope=\"col\">b&amp;c</th>"));
  EXPECT_THAT(page, Not(HasSubstr("<a>")));
}

TEST(Comparison, DashesRunsAfterTheEighth) {
  std::vector<ComparedRun> runs;
  for (int i = 0; i < 9; ++i) runs.push_back(run("run " + std::to_string(i), 1));
  const std::string page = render_comparison(runs);
  EXPECT_THAT(page, HasSubstr(".line.series-8 { stroke: var(--run-0); stroke-dasharray: 6 4; }"));
  EXPECT_THAT(page, HasSubstr(".line.series-7 { stroke: var(--run-7); }"));
}

}  // namespace
}  // namespace trireme
