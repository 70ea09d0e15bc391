#include "report/live/exposition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace trireme {
namespace {

using Kind = MetricFamily::Kind;

std::vector<MetricFamily> one_of_each() {
  Histogram seconds({0.5, 1});
  for (const double value : {0.25, 0.5, 0.75, 3.0}) seconds.observe(value);
  MetricFamily histogram{.name = "trireme_step_duration_seconds",
                         .kind = Kind::histogram,
                         .unit = "seconds",
                         .help = "Time of the steps."};
  histogram.histograms.emplace_back(MetricLabels{{"phase", "all"}}, seconds);
  return {
      {.name = "trireme_loss", .help = "Training loss.", .samples = {{2.5}}},
      {.name = "trireme_tokens", .kind = Kind::counter, .help = "Tokens.", .samples = {{12345678}}},
      {.name = "trireme_run", .kind = Kind::info, .help = "The run.", .samples = {{1, {{"model", "a \"b\"\\\nc"}}}}},
      {.name = "trireme_empty", .help = "Nothing."},
      histogram};
}

// Both texts were read by prometheus-client 0.26, the second by its strict parser of OpenMetrics.
TEST(Exposition, WritesPrometheusText) {
  EXPECT_EQ(to_text(one_of_each(), {{"run", "r1"}}, MetricFormat::prometheus),
            R"(# HELP trireme_loss Training loss.
# TYPE trireme_loss gauge
trireme_loss{run="r1"} 2.5
# HELP trireme_tokens_total Tokens.
# TYPE trireme_tokens_total counter
trireme_tokens_total{run="r1"} 12345678
# HELP trireme_run_info The run.
# TYPE trireme_run_info gauge
trireme_run_info{run="r1",model="a \"b\"\\\nc"} 1
# HELP trireme_step_duration_seconds Time of the steps.
# TYPE trireme_step_duration_seconds histogram
trireme_step_duration_seconds_bucket{run="r1",phase="all",le="0.5"} 2
trireme_step_duration_seconds_bucket{run="r1",phase="all",le="1.0"} 3
trireme_step_duration_seconds_bucket{run="r1",phase="all",le="+Inf"} 4
trireme_step_duration_seconds_sum{run="r1",phase="all"} 4.5
trireme_step_duration_seconds_count{run="r1",phase="all"} 4
)");
}

TEST(Exposition, WritesOpenMetrics) {
  EXPECT_EQ(to_text(one_of_each(), {}, MetricFormat::openmetrics),
            R"(# HELP trireme_loss Training loss.
# TYPE trireme_loss gauge
trireme_loss 2.5
# HELP trireme_tokens Tokens.
# TYPE trireme_tokens counter
trireme_tokens_total 12345678
# HELP trireme_run The run.
# TYPE trireme_run info
trireme_run_info{model="a \"b\"\\\nc"} 1
# HELP trireme_step_duration_seconds Time of the steps.
# TYPE trireme_step_duration_seconds histogram
# UNIT trireme_step_duration_seconds seconds
trireme_step_duration_seconds_bucket{phase="all",le="0.5"} 2
trireme_step_duration_seconds_bucket{phase="all",le="1.0"} 3
trireme_step_duration_seconds_bucket{phase="all",le="+Inf"} 4
trireme_step_duration_seconds_sum{phase="all"} 4.5
trireme_step_duration_seconds_count{phase="all"} 4
# EOF
)");
}

TEST(Exposition, NumbersThatAreNotFiniteHaveNames) {
  const auto text = [](double value) {
    const std::string all = to_text({{.name = "x", .help = "", .samples = {{value}}}}, {}, MetricFormat::prometheus);
    return all.substr(all.rfind(' ') + 1);
  };
  EXPECT_EQ(text(std::nan("")), "NaN\n");
  EXPECT_EQ(text(std::numeric_limits<double>::infinity()), "+Inf\n");
  EXPECT_EQ(text(-std::numeric_limits<double>::infinity()), "-Inf\n");
  EXPECT_EQ(text(1e-7), "1e-07\n");
  EXPECT_EQ(text(124439808), "124439808\n");
}

TEST(Exposition, BytesThatAreNotUtf8AreEscaped) {
  const std::string text =
      to_text({{.name = "x", .help = "", .samples = {{1, {{"l", "\xff\x1b[31m"}}}}}}, {}, MetricFormat::prometheus);
  EXPECT_NE(text.find(R"(x{l="\\xff"} 1)"), std::string::npos) << text;
}

TEST(Exposition, TheClientsPreferenceChoosesTheFormat) {
  const auto open = MetricFormat::openmetrics, plain = MetricFormat::prometheus;
  EXPECT_EQ(format_for(""), plain);
  EXPECT_EQ(format_for("*/*"), plain);
  EXPECT_EQ(format_for("text/html, */*;q=0.1"), plain);
  EXPECT_EQ(format_for("application/openmetrics-text"), open);
  EXPECT_EQ(format_for("application/openmetrics-text; version=1.0.0"), open);
  // As Prometheus 2.42 asks.
  EXPECT_EQ(format_for("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                       "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            open);
  EXPECT_EQ(format_for("text/plain;version=0.0.4;q=0.9,application/openmetrics-text;q=0.5"), plain);
  EXPECT_EQ(format_for("application/openmetrics-text;q=0"), plain);
  EXPECT_EQ(format_for("application/openmetrics-text;q=x"), plain);
}

}  // namespace
}  // namespace trireme
