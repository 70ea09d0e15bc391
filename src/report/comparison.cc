
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/count.h"
#include "report/console.h"
#include "report/html.h"
#include "report/svg_chart.h"

namespace trireme {
namespace {

constexpr int kWide = 960, kNarrow = 472;  // chart sizes in CSS pixels: one or two to a row
constexpr int kTall = 340, kLow = 240;

/// Eight colors, each for light and dark pages; runs after the eighth have the same colors, dashed.
constexpr size_t kColors = 8;
constexpr std::array<const char*, kColors> kLight = {"#0b6e99", "#c45a00", "#2f7d4f", "#ad1a72",
                                                     "#6940a5", "#8a6d00", "#c92f2f", "#5b6770"};
constexpr std::array<const char*, kColors> kDark = {"#5ab8e0", "#f2a25c", "#6cc78f", "#f07cbf",
                                                    "#b795f0", "#dbbc4a", "#f58a8a", "#b3bec7"};

constexpr std::string_view kCompareStyle = R"(
fieldset { border: 1px solid var(--rule); border-radius: 8px; margin: 16px 0; padding: 8px 16px; display: flex;
           flex-wrap: wrap; gap: 6px 20px; } legend { font-weight: 600; padding: 0 6px; }
label { display: inline-flex; align-items: center; gap: 6px; cursor: pointer; overflow-wrap: anywhere; }
label svg { width: 26px; height: 12px; flex: none; } input { accent-color: var(--first); }
.scroll { overflow-x: auto; } .scroll td { min-width: 96px; }
.by-tokens, .by-time { display: none; }
body:has(#by-tokens:checked) .by-step, body:has(#by-time:checked) .by-step { display: none; }
body:has(#by-tokens:checked) .by-tokens, body:has(#by-time:checked) .by-time { display: block; }
)";

/// What the x axis shows.
struct XAxis {
  const char *name, *label;  ///< class and id, label of the axis
  double (*of)(const Metrics&);
};
constexpr std::array<XAxis, 3> kAxes = {
    XAxis{"by-step", "step", [](const Metrics& m) { return static_cast<double>(m.step); }},
    XAxis{"by-tokens", "tokens", [](const Metrics& m) { return static_cast<double>(m.tokens); }},
    XAxis{"by-time", "hours of running time", [](const Metrics& m) { return m.seconds_run / 3600; }}};

/// Where an evaluation after `step` lies on the axis: between the records around it.
double place_of(int64_t step, const std::vector<Metrics>& steps, const XAxis& axis) {
  if (steps.empty()) return static_cast<double>(step);
  const auto after = std::ranges::lower_bound(steps, step, {}, &Metrics::step);
  if (after == steps.end()) return axis.of(steps.back());
  if (after->step == step || after == steps.begin()) return axis.of(*after);
  const Metrics& before = *(after - 1);
  const double share = static_cast<double>(step - before.step) / static_cast<double>(after->step - before.step);
  return axis.of(before) + share * (axis.of(*after) - axis.of(before));
}

/// A number of a run's records or evaluations, as a chart.
struct Curve {
  std::string title, unit;
  std::optional<double> (*of)(const Metrics&) = nullptr;  ///< of records; otherwise of evaluations:
  std::string measure = {};                               ///< "": the validation loss
  bool from_zero = false;
};

std::optional<double> value_of(const EvaluationMetrics& evaluation, const std::string& measure) {
  if (measure.empty()) return evaluation.validation_loss;
  for (const auto& [name, value] : evaluation.values) {
    if (name == measure) return value;
  }
  return {};
}

Series series_of(const ComparedRun& run, const Curve& curve, const XAxis& axis) {
  Series series{run.name, {}, curve.of == nullptr};
  if (curve.of) {
    for (const Metrics& m : run.log.steps) {
      if (const std::optional<double> y = curve.of(m)) series.points.emplace_back(axis.of(m), *y);
    }
    return series;
  }
  for (const EvaluationMetrics& m : run.log.evaluations) {
    if (const std::optional<double> y = value_of(m, curve.measure))
      series.points.emplace_back(place_of(m.step, run.log.steps, axis), *y);
  }
  return series;
}

/// The chart for each x axis, of which the page shows one; empty if no run has points.
std::string charts_of(const std::vector<ComparedRun>& runs, const Curve& curve, bool wide) {
  std::string out;
  for (const XAxis& axis : kAxes) {
    Chart chart{curve.title, axis.label, curve.unit, {}, {}, curve.from_zero, false};
    bool any = false;
    for (const ComparedRun& run : runs) {
      chart.series.push_back(series_of(run, curve, axis));
      any = any || !chart.series.back().points.empty();
    }
    if (!any) return {};
    out += fmt::format("<div class=\"chart {}{}\">{}</div>\n", wide ? "wide " : "", axis.name,
                       svg_chart(chart, wide ? kWide : kNarrow, wide ? kTall : kLow));
  }
  return out;
}

/// The runs' unit of losses; empty if it differs.
std::string common_unit(const std::vector<ComparedRun>& runs) {
  const bool equal =
      std::ranges::all_of(runs, [&](const ComparedRun& run) { return run.log.unit == runs[0].log.unit; });
  return equal ? name_of(runs[0].log.unit) : "";
}

std::vector<std::string> measures_of(const std::vector<ComparedRun>& runs) {
  std::vector<std::string> names;
  for (const ComparedRun& run : runs) {
    if (run.log.evaluations.empty()) continue;
    for (const auto& [name, value] : run.log.evaluations.back().values) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::string charts(const std::vector<ComparedRun>& runs) {
  using Maybe = std::optional<double>;
  const std::string unit = common_unit(runs);
  std::string out = "<div class=\"charts\">\n";
  out += charts_of(runs, {"Training loss", unit, [](const Metrics& m) { return Maybe(m.loss); }}, true);
  out += charts_of(runs, {"Validation loss", unit}, true);
  for (const std::string& name : measures_of(runs))
    out += charts_of(runs, {.title = "Validation: " + name, .unit = "", .measure = name}, false);
  const auto small = [&](const char* title, const char* of_unit, Maybe (*of)(const Metrics&)) {
    out += charts_of(runs, {.title = title, .unit = of_unit, .of = of, .from_zero = true}, false);
  };
  small("Throughput", "tokens/s", [](const Metrics& m) { return Maybe(m.tokens_per_second); });
  small("Step time", "ms", [](const Metrics& m) { return Maybe(m.ms_per_step); });
  small("Learning rate", "", [](const Metrics& m) { return Maybe(m.learning_rate); });
  small("Gradient norm", "before clipping", [](const Metrics& m) { return Maybe(m.gradient_norm); });
  small("Waiting for communication", "% of the step", [](const Metrics& m) { return Maybe(100 * m.exposed_share); });
  small("Memory of rank 0", "GB", [](const Metrics& m) {
    return m.memory_bytes > 0 ? Maybe(static_cast<double>(m.memory_bytes) / 1e9) : std::nullopt;
  });
  return out + "</div>\n";
}

std::string run_style(size_t runs) {
  std::string light, dark, lines;
  for (size_t i = 0; i < std::min(runs, kColors); ++i) {
    light += fmt::format("--run-{}: {}; ", i, kLight[i]);
    dark += fmt::format("--run-{}: {}; ", i, kDark[i]);
  }
  for (size_t i = 0; i < runs; ++i) {
    lines += fmt::format(
        ".line.series-{0} {{ stroke: var(--run-{1});{2} }} circle.series-{0} {{ fill: var(--run-{1}); }}\n"
        "body:has(#run-{0}:not(:checked)) .charts .series-{0} {{ display: none; }}\n",
        i, i % kColors, i < kColors ? "" : " stroke-dasharray: 6 4;");
  }
  return fmt::format(":root {{ {} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {} }} }}\n{}", light, dark,
                     lines);
}

/// Which runs and which x axis the charts show; without scripts.
std::string choices(const std::vector<ComparedRun>& runs) {
  std::string out = "<fieldset><legend>Runs</legend>\n";
  for (size_t i = 0; i < runs.size(); ++i) {
    out += fmt::format(
        "<label><input type=\"checkbox\" id=\"run-{0}\" autocomplete=\"off\" checked><svg viewBox=\"0 0 26 12\" "
        "aria-hidden=\"true\"><line class=\"line series-{0}\" x1=\"0\" x2=\"26\" y1=\"6\" "
        "y2=\"6\"/></svg>{1}</label>\n",
        i, escape_html(runs[i].name));
  }
  out += "</fieldset>\n<fieldset><legend>Curves by</legend>\n";
  for (const XAxis& axis : kAxes) {
    out += fmt::format("<label><input type=\"radio\" name=\"axis\" id=\"{}\" autocomplete=\"off\"{}>{}</label>\n",
                       axis.name, &axis == kAxes.data() ? " checked" : "", axis.label);
  }
  return out + "</fieldset>\n";
}

/// A line of a table: what it is, and its value for each run ("": none).
struct Row {
  std::string name;
  std::vector<std::string> values;
};

bool differs(const Row& row) {
  return std::ranges::any_of(row.values, [&](const std::string& value) { return value != row.values[0]; });
}

std::string table(const std::vector<ComparedRun>& runs, const std::vector<Row>& rows, std::string_view label) {
  std::string out = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table>\n<tr><td></td>", label);
  for (const ComparedRun& run : runs) out += fmt::format("<th scope=\"col\">{}</th>", escape_html(run.name));
  out += "</tr>\n";
  for (const Row& row : rows) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", escape_html(row.name));
    for (const std::string& value : row.values) out += fmt::format("<td>{}</td>", escape_html(value));
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string best_loss(const RunLog& log) {
  const EvaluationMetrics* best = best_evaluation(log);
  return best ? fmt::format("{} at step {}", fixed_number(*best->validation_loss, 4), best->step) : "";
}

std::string last_measure(const RunLog& log, const std::string& name) {
  if (log.evaluations.empty()) return "";
  const std::optional<double> value = value_of(log.evaluations.back(), name);
  return value ? fixed_number(*value, 4) : "";
}

std::string results(const std::vector<ComparedRun>& runs) {
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const auto& text_of) {
    Row row{name, {}};
    for (const ComparedRun& run : runs) row.values.push_back(text_of(run.log));
    const bool any = std::ranges::any_of(row.values, [](const std::string& value) { return !value.empty(); });
    if (any) rows.push_back(std::move(row));
  };
  const auto last = [](const RunLog& log) { return log.steps.empty() ? Metrics() : log.steps.back(); };
  add("steps", [&](const RunLog& log) {
    const int64_t done =
        log.attempts.empty() ? last(log).step : std::max(last(log).step, log.attempts.back().last_step);
    return fmt::format("{} of {}", done, log.total_steps);
  });
  add("ended as", [](const RunLog& log) { return log.attempts.empty() ? "" : log.attempts.back().state; });
  add("training loss at the last step",
      [&](const RunLog& log) { return log.steps.empty() ? "" : fixed_number(last(log).loss, 4); });
  add("best validation loss", best_loss);
  for (const std::string& name : measures_of(runs))
    add(name + " at the last evaluation", [&](const RunLog& log) { return last_measure(log, name); });
  if (common_unit(runs).empty())
    add("unit of the loss", [](const RunLog& log) { return std::string(name_of(log.unit)); });
  add("tokens/s, median", [](const RunLog& log) { return fmt::format("{:.0f}", median_speed(log.steps)); });
  add("tokens trained on", [&](const RunLog& log) { return short_number(static_cast<double>(last(log).tokens)); });
  add("running time", [](const RunLog& log) { return duration_text(seconds_run(log)); });
  return "<h2>Results</h2>\n" + table(runs, rows, "Results");
}

/// One row per name, in the order of the runs that have it; runs without it have `absent`.
std::vector<Row> rows_of(const std::vector<ComparedRun>& runs, RunFacts RunLog::*facts, const std::string& absent) {
  std::vector<Row> rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [name, value] : runs[i].log.*facts) {
      auto row = std::ranges::find(rows, name, &Row::name);
      if (row == rows.end()) row = rows.insert(row, {name, std::vector<std::string>(runs.size(), absent)});
      row->values[i] = value;
    }
  }
  return rows;
}

std::string options(const std::vector<ComparedRun>& runs) {
  std::string out = "<h2>Options that differ</h2>\n";
  std::vector<std::string> unknown;
  for (const ComparedRun& run : runs) {
    if (run.log.configuration.empty()) unknown.push_back(run.name);
  }
  for (const std::string& name : unknown)
    out += fmt::format("<p class=\"soft\">The log of {} has no options: an older version wrote it.</p>\n",
                       escape_html(name));
  if (unknown.size() == runs.size()) return out;
  std::vector<Row> rows = rows_of(runs, &RunLog::configuration, "not recorded");
  std::erase_if(rows, [](const Row& row) { return row.name == "run.dir"; });  // the runs' names say it
  const size_t all = rows.size();
  std::erase_if(rows, [](const Row& row) { return !differs(row); });
  if (!rows.empty()) out += table(runs, rows, "Options that differ");
  const auto equal = static_cast<int64_t>(all - rows.size());
  return out + fmt::format("<p class=\"soft\">{}, not counting run.dir.</p>\n",
                           rows.empty() ? "All options have the same values"
                                        : count_text(equal, "other option") +
                                              (equal == 1 ? " has the same value" : " have the same values"));
}

std::string facts(const std::vector<ComparedRun>& runs) {
  std::vector<Row> rows = rows_of(runs, &RunLog::facts, "");
  std::erase_if(rows, [](const Row& row) { return !differs(row); });
  return rows.empty() ? "" : "<h2>Facts that differ</h2>\n" + table(runs, rows, "Facts that differ");
}

std::string samples(const std::vector<ComparedRun>& runs) {
  std::string out;
  for (const ComparedRun& run : runs) {
    if (run.log.samples.empty()) continue;
    const SampleText& sample = run.log.samples.back();
    out += fmt::format("<p class=\"soft\">{}, step {}</p><div class=\"sample\"><b>{}</b>{}</div>\n",
                       escape_html(run.name), sample.step, escape_html(sample.prompt), escape_html(sample.text));
  }
  return out.empty() ? out : "<h2>Last samples</h2>\n" + out;
}

}  // namespace

std::string render_comparison(const std::vector<ComparedRun>& runs) {
  const std::string title = "Comparison of " + count_text(static_cast<int64_t>(runs.size()), "run");
  return html_head(title, std::string(kCompareStyle) + run_style(runs.size())) + fmt::format("<h1>{}</h1>\n", title) +
         choices(runs) + charts(runs) + results(runs) + options(runs) + facts(runs) + samples(runs) +
         "</body>\n</html>\n";
}

}  // namespace trireme
