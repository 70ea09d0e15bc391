#include "report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "report/svg_chart.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

HtmlReport example() {
  HtmlReport report;
  report.title = "demo <1>";
  for (int64_t step = 10; step <= 100; step += 10) {
    Metrics m;
    m.step = step;
    m.loss = 8 - std::log(static_cast<double>(step));
    m.tokens_per_second = 5000 + static_cast<double>(step);
    m.tokens = static_cast<uint64_t>(step) * 2048;
    report.log.steps.push_back(m);
  }
  report.log.evaluations = {{50, std::nullopt, 4.5, 1, true}, {100, std::nullopt, 4.25, 1, true}};
  report.log.attempts = {{0, 50, 1000, 1060, "stopped"}, {50, 104, 1070, 1130, ""}};
  report.log.facts = {{"model", "4 layers & more"}};
  report.log.configuration = {{"optim.beta1", "0.9"}, {"optim.clip", "0.5"}};
  report.log.origins = {{"optim.clip", "flag --optim.clip"}};
  report.log.total_steps = 120;
  report.samples = {{100, "In the beginning", " was <the> word"}};
  return report;
}

TEST(Html, IsOneFileWithoutAnythingFromOutside) {
  const std::string page = render_html(example());
  for (const char* outside : {"http:", "https:", "src=", "<script", "<link", "@import", "url("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
}

TEST(Html, ShowsCurvesFactsAttemptsAndSamples) {
  const std::string page = render_html(example());
  EXPECT_THAT(page, HasSubstr("aria-label=\"Loss\""));
  EXPECT_THAT(page, HasSubstr("aria-label=\"Throughput\""));
  EXPECT_THAT(page, HasSubstr("best validation loss, at step 100: perplexity 70.11"));
  EXPECT_THAT(page, HasSubstr("<th>model</th><td>4 layers &amp; more</td>"));
  EXPECT_THAT(page, HasSubstr("<th>tokens seen</th><td>204,800</td>"));
  EXPECT_THAT(page, HasSubstr("<b>104 / 120</b>"));
  EXPECT_THAT(page, HasSubstr("ended without a status"));
  EXPECT_THAT(page, HasSubstr("<h2>Options</h2>"));
  EXPECT_THAT(page, HasSubstr("<tr><th>optim.clip</th><td>0.5</td><td class=\"soft\">flag --optim.clip</td></tr>"));
  EXPECT_THAT(page, HasSubstr("the other options, with their defaults"));
  EXPECT_THAT(page, HasSubstr("<tr><th>optim.beta1</th><td>0.9</td></tr>"));
  EXPECT_THAT(page, HasSubstr(">resumed</text>"));
}

TEST(Html, ShowsSamplesBeforeTheTrainingAboveThoseOfTheSamePrompt) {
  HtmlReport report = example();
  report.samples = {{100, "one", " a"}, {100, "two", " b"}, {100, "one", " c"}};
  report.before = {{0, "one", " A"}, {0, "three", " D"}, {0, "one", " C"}};
  const std::string page = render_html(report);
  size_t at = page.find("<h2>Samples</h2>");
  for (const char* text : {"before the training</p>", "<b>one</b> A<", "step 100</p>", "<b>one</b> a<", "<b>two</b> b<",
                           "<b>one</b> C<", "<b>one</b> c<", "<b>three</b> D<"}) {
    const size_t next = page.find(text, at);
    ASSERT_NE(next, std::string::npos) << text;
    at = next;
  }
}

TEST(Html, EscapesWhatTheRunAndTheModelWrote) {
  const std::string page = render_html(example());
  EXPECT_THAT(page, HasSubstr("<title>demo &lt;1&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("<b>In the beginning</b> was &lt;the&gt; word"));
}

TEST(Html, SaysSoWhenNoStepWasReported) {
  HtmlReport report;
  report.title = "empty";
  EXPECT_THAT(render_html(report), HasSubstr("No step was reported."));
}

TEST(SvgChart, BreaksTheLineAtNonFiniteValues) {
  const Chart chart{"loss", "step", "", {{"a", {{0, 1}, {1, NAN}, {2, 3}, {3, 2}}, false}}, {}, false};
  const std::string svg = svg_chart(chart, 400, 200);
  const std::string path = svg.substr(svg.find("class=\"line series-0\""));
  const std::string data = path.substr(0, path.find("/>"));
  EXPECT_EQ(std::count(data.begin(), data.end(), 'M'), 2);
  EXPECT_EQ(std::count(data.begin(), data.end(), 'L'), 1);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

TEST(SvgChart, ThinsLongCurves) {
  Series series{"a", {}, false};
  for (int i = 0; i < 100000; ++i) series.points.emplace_back(i, std::sin(i * 1e-4));
  EXPECT_LT(svg_chart({"loss", "step", "", {series}, {}, false}, 400, 200).size(), 20000u);
}

TEST(SvgChart, DrawsASinglePointAndAnEmptySeries) {
  EXPECT_THAT(svg_chart({"loss", "step", "", {{"a", {{5, 2}}, true}}, {}, false}, 400, 200), HasSubstr("<circle"));
  EXPECT_THAT(svg_chart({"loss", "step", "", {{"a", {}, true}}, {}, false}, 400, 200), Not(HasSubstr("nan")));
}

TEST(SvgChart, DrawsValuesThatDifferInTheirLastDigitOnly) {
  for (const double value : {0.6931471805599453, -3e18, 1e-300, 0.0}) {
    const double next = std::nextafter(value, 1e30);
    const std::string svg =
        svg_chart({"loss", "step", "", {{"a", {{0, value}, {1, next}}, true}}, {}, false}, 400, 200);
    EXPECT_LT(svg.size(), 5000U) << value;
    EXPECT_THAT(svg, Not(HasSubstr("nan"))) << value;
  }
  EXPECT_LE(round_ticks(1, std::nextafter(1, 2), 6).size(), 1U);
}

TEST(SvgChart, LeavesOutValuesThatAreTooLargeToDraw) {
  const std::string svg = svg_chart(
      {"loss", "step", "", {{"a", {{0, 1}, {1, 1.7e308}, {2, -1.7e308}, {3, 2}}, false}}, {}, false}, 400, 200);
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(svg, HasSubstr("class=\"line series-0\""));
}

TEST(RoundTicks, AreOneTwoOrFiveTimesAPowerOfTenApart) {
  EXPECT_THAT(round_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(round_ticks(0.3, 1.1, 5), ElementsAre(testing::DoubleEq(0.4), testing::DoubleEq(0.6),
                                                    testing::DoubleEq(0.8), testing::DoubleEq(1.0)));
  EXPECT_FALSE(std::signbit(round_ticks(0, 10, 5)[0]));
  EXPECT_THAT(round_ticks(0, 2000, 6), ElementsAre(0, 500, 1000, 1500, 2000));
}

TEST(ShortNumber, FitsATickLabel) {
  EXPECT_EQ(short_number(0.0006), "0.0006");
  EXPECT_EQ(short_number(1500), "1500");
  EXPECT_EQ(short_number(12500), "12.5k");
  EXPECT_EQ(short_number(2.5e6), "2.5M");
}

TEST(FixedNumber, StaysShort) {
  EXPECT_EQ(fixed_number(5.69385, 4), "5.6939");
  EXPECT_EQ(fixed_number(-1e308, 4), "-1e+308");
  EXPECT_EQ(fixed_number(std::exp(500), 2), "1.404e+217");
  EXPECT_EQ(fixed_number(NAN, 4), "nan");
}

TEST(Html, ALossThatIsNotFiniteIsNotTheBest) {
  HtmlReport report;
  report.title = "run";
  for (const auto& [step, loss] : {std::pair{1, NAN}, {2, 5.5F}, {3, NAN}, {4, 6.5F}}) {
    EvaluationMetrics m;
    m.step = step;
    m.validation_loss = loss;
    report.log.evaluations.push_back(m);
  }
  EXPECT_EQ(best_evaluation(report.log)->step, 2);
  EXPECT_THAT(render_html(report), HasSubstr("best validation loss, at step 2: perplexity 244.69"));
  report.log.evaluations.resize(1);
  EXPECT_EQ(best_evaluation(report.log), nullptr);
}

}  // namespace
}  // namespace trireme
