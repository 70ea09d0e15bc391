#include "report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "report/console.h"
#include "report/svg_chart.h"

namespace trireme {
namespace {

constexpr int kWide = 960, kNarrow = 472;  // chart sizes in CSS pixels: one or two to a row
constexpr int kTall = 340, kLow = 240;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --back: #fbfbf9; --card: #fff; --text: #1d2327; --soft: #66707a; --rule: #e2e4e1;
        --first: #0b6e99; --second: #d9730d; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14181b; --card: #1c2226; --text: #e6e8e6; --soft: #99a3ab; --rule: #333b40;
          --first: #5ab8e0; --second: #f2a25c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1024px; padding: 32px 24px; background: var(--back); color: var(--text);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 32px 0 12px; } .soft { color: var(--soft); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 24px 0; }
.tile, .chart, .sample { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; }
.tile { padding: 12px 16px; } .tile b { display: block; font-size: 22px; font-weight: 600; }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 12px; } .chart { padding: 8px; }
.wide { grid-column: 1 / -1; } svg { display: block; width: 100%; height: auto; }
@media (max-width: 700px) { .charts { grid-template-columns: 1fr; } .wide { overflow-x: auto; }
                            .wide svg { min-width: 640px; } }
svg text { font-size: 12px; fill: var(--soft); } svg .title { font-size: 14px; font-weight: 600; fill: var(--text); }
.grid { stroke: var(--rule); } .axis { stroke: var(--soft); fill: none; }
.marker { stroke: var(--soft); stroke-dasharray: 4 4; } .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.series-0 { stroke: var(--first); } .line.series-1 { stroke: var(--second); }
circle.series-0 { fill: var(--first); } circle.series-1 { fill: var(--second); }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: 5px 16px 5px 0; vertical-align: top;
        border-bottom: 1px solid var(--rule); } th { font-weight: 600; white-space: nowrap; } td { overflow-wrap: anywhere; }
.sample { padding: 14px 18px; margin: 12px 0; white-space: pre-wrap; font-family: ui-serif, Georgia, "DejaVu Serif", serif; }
)";

std::string number_with_commas(uint64_t value) {
  const std::string digits = fmt::format("{}", value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string date_text(double unix_seconds) {
  const auto time = static_cast<std::time_t>(unix_seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

std::string tile(const std::string& value, std::string_view label) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span class=\"soft\">{}</span></div>\n", escape_html(value), label);
}

/// "matthews correlation" for matthews_correlation; MNLI's second set gets its name.
std::string title_of(std::string name) {
  const bool mismatched = name.ends_with("_mm");
  if (mismatched) name.resize(name.size() - 3);
  std::ranges::replace(name, '_', ' ');
  return name + (mismatched ? " (mismatched)" : "");
}

std::string tiles(const RunLog& log) {
  std::string out = "<div class=\"tiles\">\n";
  if (!log.steps.empty()) {
    const Metrics& last = log.steps.back();
    const int64_t done = log.attempts.empty() ? last.step : std::max(last.step, log.attempts.back().last_step);
    out += tile(fmt::format("{} / {}", done, log.total_steps), "steps");
    out += tile(fixed_number(last.loss, 4), "training loss at the last step");
  }
  if (const EvaluationMetrics* best = best_evaluation(log)) {
    const std::string perplexity = log.unit == LossUnit::token
                                       ? ": perplexity " + fixed_number(std::exp(*best->validation_loss), 2)
                                       : ", " + std::string(name_of(log.unit));
    out += tile(fixed_number(*best->validation_loss, 4),
                fmt::format("best validation loss, at step {}{}", best->step, perplexity));
  }
  if (!log.evaluations.empty()) {
    for (const auto& [name, value] : log.evaluations.back().values)
      out += tile(fixed_number(value, 4),
                  escape_html(fmt::format("{}, at step {}", title_of(name), log.evaluations.back().step)));
  }
  if (!log.tests.empty()) {
    const TestMetrics& test = log.tests.back();
    out += tile(fixed_number(test.loss, 4),
                fmt::format("test loss, at step {}: perplexity {}", test.step, fixed_number(std::exp(test.loss), 2)));
  }
  if (!log.steps.empty()) {
    out += tile(fmt::format("{:.0f}", median_speed(log.steps)), "tokens/s, median");
    out += tile(short_number(static_cast<double>(log.steps.back().tokens)), "tokens trained on");
  }
  out += tile(duration_text(seconds_run(log)), "running time");
  return out + "</div>\n";
}

Series curve(const RunLog& log, std::string name, double Metrics::*field, double scale = 1) {
  Series series{std::move(name), {}, false};
  for (const Metrics& m : log.steps) series.points.emplace_back(static_cast<double>(m.step), scale * (m.*field));
  return series;
}

std::vector<std::pair<double, std::string>> resume_markers(const RunLog& log) {
  std::vector<std::pair<double, std::string>> markers;
  for (const AttemptLog& attempt : log.attempts) {
    const bool went_on = !log.steps.empty() && attempt.first_step < log.steps.back().step;
    if (attempt.first_step > 0 && went_on) markers.emplace_back(static_cast<double>(attempt.first_step), "resumed");
  }
  return markers;
}

Chart loss_chart(const RunLog& log) {
  Chart chart{"Loss", "step", name_of(log.unit), {curve(log, "training", &Metrics::loss)}, resume_markers(log), false};
  Series validation{"validation", {}, true};
  for (const EvaluationMetrics& m : log.evaluations) {
    if (m.validation_loss) validation.points.emplace_back(static_cast<double>(m.step), *m.validation_loss);
  }
  if (!validation.points.empty()) chart.series.push_back(std::move(validation));
  return chart;
}

/// The values of one measure in records of steps or evaluations.
template <class Records>
Series measure_series(const Records& records, const std::string& measure, const char* title, bool dots) {
  Series series{title, {}, dots};
  for (const auto& m : records) {
    for (const auto& [name, value] : m.values) {
      if (name == measure) series.points.emplace_back(static_cast<double>(m.step), value);
    }
  }
  return series;
}

/// One chart per measure of the task, over the steps and the evaluations.
std::string measure_charts(const RunLog& log) {
  std::string out;
  const bool trained = !log.steps.empty() && !log.steps.back().values.empty();
  if (!trained && log.evaluations.empty()) return out;
  for (const auto& [name, last] : trained ? log.steps.back().values : log.evaluations.back().values) {
    Series validation = measure_series(log.evaluations, name, trained ? "validation" : title_of(name).c_str(), true);
    Chart chart{(trained ? "" : "Validation: ") + title_of(name), "step", "", {}, {}, false};
    if (trained) chart.series.push_back(measure_series(log.steps, name, "training", false));
    if (!validation.points.empty()) chart.series.push_back(std::move(validation));
    out += fmt::format("<div class=\"chart\">{}</div>\n", svg_chart(chart, kNarrow, kLow));
  }
  return out;
}

/// Empty without such values: in logs of the first releases, and of a GPU on the CPU.
std::string memory_chart(const RunLog& log, const char* title, uint64_t Metrics::*bytes) {
  Series series{"memory", {}, false};
  for (const Metrics& m : log.steps) {
    if (m.*bytes > 0) series.points.emplace_back(static_cast<double>(m.step), static_cast<double>(m.*bytes) / 1e9);
  }
  if (series.points.empty()) return {};
  const Chart chart{title, "step", "GB", {series}, {}, true};
  return fmt::format("<div class=\"chart\">{}</div>\n", svg_chart(chart, kNarrow, kLow));
}

/// Empty for one rank.
std::string slowest_chart(const RunLog& log) {
  Series series{"Slowest rank", {}, false};
  for (const Metrics& m : log.steps) {
    if (m.slowest) series.points.emplace_back(static_cast<double>(m.step), m.slowest->ratio);
  }
  if (series.points.empty()) return {};
  const Chart chart{"Slowest rank", "step", "own work / median of the ranks", {series}, {}, true};
  return fmt::format("<div class=\"chart\">{}</div>\n", svg_chart(chart, kNarrow, kLow));
}

/// Empty without such values.
std::string gpu_chart(const RunLog& log, const char* title, const char* unit, double GpuSummary::*field, double scale) {
  Series series{title, {}, false};
  for (const Metrics& m : log.steps) {
    if (m.gpu && std::isfinite((*m.gpu).*field))
      series.points.emplace_back(static_cast<double>(m.step), (*m.gpu).*field * scale);
  }
  if (series.points.empty()) return {};
  const Chart chart{title, "step", unit, {series}, {}, true};
  return fmt::format("<div class=\"chart\">{}</div>\n", svg_chart(chart, kNarrow, kLow));
}

std::string charts(const RunLog& log) {
  if (log.steps.empty() && log.evaluations.empty()) return "<p class=\"soft\">No step was reported.</p>\n";
  std::string out = "<div class=\"charts\">\n";
  out += fmt::format("<div class=\"chart wide\">{}</div>\n", svg_chart(loss_chart(log), kWide, kTall));
  const auto small = [&](const char* title, const char* unit, double Metrics::*field, double scale, bool from_zero) {
    const Chart chart{title, "step", unit, {curve(log, title, field, scale)}, {}, from_zero};
    out += fmt::format("<div class=\"chart\">{}</div>\n", svg_chart(chart, kNarrow, kLow));
  };
  out += measure_charts(log);
  small("Step time", "ms", &Metrics::ms_per_step, 1, true);
  small("Throughput", "tokens/s", &Metrics::tokens_per_second, 1, true);
  small("Learning rate", "", &Metrics::learning_rate, 1, true);
  small("Gradient norm", "before clipping", &Metrics::gradient_norm, 1, true);
  small("Waiting for communication", "% of the step", &Metrics::exposed_share, 100, true);
  out += slowest_chart(log);
  out += memory_chart(log, "Memory of rank 0", &Metrics::memory_bytes);
  out += memory_chart(log, "Memory in use of the GPU", &Metrics::gpu_memory_bytes);
  out += gpu_chart(log, "Time in which the GPUs were busy", "%", &GpuSummary::busy, 100);
  out += gpu_chart(log, "Power of all GPUs", "W", &GpuSummary::watts, 1);
  out += gpu_chart(log, "Temperature of the hottest GPU", "C", &GpuSummary::celsius, 1);
  out += gpu_chart(log, "Memory errors of the GPUs that ECC could not correct", "", &GpuSummary::errors, 1);
  return out + "</div>\n";
}

std::string facts_table(const RunFacts& facts) {
  std::string out = "<table>\n";
  for (const auto& [name, value] : facts) {
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_html(name), escape_html(value));
  }
  return out + "</table>\n";
}

std::string evaluations_table(const RunLog& log) {
  const bool validates =
      std::ranges::any_of(log.evaluations, [](const auto& m) { return m.validation_loss.has_value(); });
  if (!validates) return {};
  const EvaluationMetrics& last = log.evaluations.back();
  std::string out = "<h2>Evaluations</h2>\n<table>\n<tr><th>step</th>";
  if (last.epoch) out += "<th>epoch</th>";
  out += fmt::format("<th>validation loss, {}</th>", name_of(log.unit));
  for (const auto& named : last.values) out += fmt::format("<th>{}</th>", escape_html(title_of(named.first)));
  out += "</tr>\n";
  for (const EvaluationMetrics& m : log.evaluations) {
    out += fmt::format("<tr><td>{}{}</td>", m.step, m.best ? " (best so far)" : "");
    if (last.epoch) out += fmt::format("<td>{}</td>", m.epoch ? fixed_number(*m.epoch, 2) : "");
    out += fmt::format("<td>{}</td>", m.validation_loss ? fixed_number(*m.validation_loss, 4) : "");
    for (const auto& named : last.values) {
      const auto at = std::ranges::find(m.values, named.first, &std::pair<std::string, double>::first);
      out += fmt::format("<td>{}</td>", at == m.values.end() ? "" : fixed_number(at->second, 4));
    }
    out += "</tr>\n";
  }
  return out + "</table>\n";
}

/// What files and flags set, with its origin; the rest is folded.
std::string options_section(const RunLog& log) {
  if (log.configuration.empty()) return {};
  std::string given, rest;
  for (const auto& [name, value] : log.configuration) {
    const auto origin = std::ranges::find(log.origins, name, &RunFacts::value_type::first);
    const bool is_given = origin != log.origins.end();
    (is_given ? given : rest) +=
        fmt::format("<tr><th>{}</th><td>{}</td>{}</tr>\n", escape_html(name), escape_html(value),
                    is_given ? fmt::format("<td class=\"soft\">{}</td>", escape_html(origin->second)) : "");
  }
  std::string out = "<h2>Options</h2>\n";
  if (!given.empty()) out += "<table>\n<tr><th>option</th><th>value</th><th>from</th></tr>\n" + given + "</table>\n";
  return out + fmt::format("<details><summary>{}</summary>\n<table>\n{}</table>\n</details>\n",
                           given.empty() ? "all options" : "the other options, with their defaults", rest);
}

std::string attempts_table(const RunLog& log) {
  std::string out = "<table>\n<tr><th>started</th><th>ran</th><th>from step</th><th>ended as</th></tr>\n";
  for (const AttemptLog& attempt : log.attempts) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", date_text(attempt.started),
                       duration_text(attempt.ended - attempt.started), attempt.first_step,
                       attempt.state.empty() ? "ended without a status" : escape_html(attempt.state));
  }
  return out + "</table>\n";
}

std::string samples_section(const HtmlReport& report) {
  if (report.log.samples.empty() && report.samples.empty() && report.before.empty()) return {};
  std::string out = "<h2>Samples</h2>\n";
  const auto add = [&](const SampleText& sample, const std::string& when) {
    out += fmt::format("<p class=\"soft\">{}</p><div class=\"sample\"><b>{}</b>{}</div>\n", when,
                       escape_html(sample.prompt), escape_html(sample.text));
  };
  const auto step_of = [](const SampleText& sample) { return fmt::format("step {}", sample.step); };
  for (const SampleText& sample : report.log.samples) add(sample, step_of(sample));
  std::vector<SampleText> before = report.before;
  for (const SampleText& sample : report.samples) {
    const auto same = std::ranges::find(before, sample.prompt, &SampleText::prompt);
    if (same != before.end()) {
      add(*same, "before the training");
      before.erase(same);
    }
    add(sample, step_of(sample));
  }
  for (const SampleText& sample : before) add(sample, "before the training");
  return out;
}

}  // namespace

std::string html_head(const std::string& title, std::string_view more_style) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n" +
         fmt::format("<title>{}</title>\n<style>{}{}</style>\n</head>\n<body>\n", escape_html(title), kStyle,
                     more_style);
}

std::string html_results(const HtmlReport& report) { return tiles(report.log) + charts(report.log); }

std::string html_details(const HtmlReport& report) {
  const RunLog& log = report.log;
  RunFacts facts = log.facts;
  facts.insert(facts.end(), report.more_facts.begin(), report.more_facts.end());
  if (!log.steps.empty()) {
    facts.emplace_back("samples seen", number_with_commas(log.steps.back().samples));
    facts.emplace_back("tokens seen", number_with_commas(log.steps.back().tokens));
    if (log.steps.back().skipped > 0) facts.emplace_back("steps skipped", fmt::format("{}", log.steps.back().skipped));
  }
  if (log.bad_lines > 0) facts.emplace_back("unreadable log lines", fmt::format("{}", log.bad_lines));
  std::string out = evaluations_table(log);
  out += "<h2>The run</h2>\n" + facts_table(facts) + options_section(log);
  if (!log.attempts.empty()) out += "<h2>Attempts</h2>\n" + attempts_table(log);
  return out + samples_section(report);
}

std::string render_html(const HtmlReport& report) {
  std::string page = html_head(report.title) + fmt::format("<h1>{}</h1>\n", escape_html(report.title));
  if (!report.log.attempts.empty()) {
    page += fmt::format("<div class=\"soft\">A Trireme run, last active {}</div>\n",
                        date_text(report.log.attempts.back().ended));
  }
  return page + html_results(report) + html_details(report) + "</body>\n</html>\n";
}

}  // namespace trireme
