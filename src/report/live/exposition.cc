#include "report/live/exposition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/printable.h"
#include "base/text.h"

namespace trireme {
namespace {

constexpr size_t kMostLabelBytes = 1024;

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// The bound of a bucket, which OpenMetrics wants to have as a floating-point number: "1.0".
std::string bound(double value) {
  const std::string text = number(value);
  return text.find_first_of(".eI") == std::string::npos ? text + ".0" : text;
}

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : printable(text, kMostLabelBytes)) {
    if (c == '\\' || (c == '"' && quotes)) out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

void add_labels(std::string& text, const MetricLabels& common, const MetricLabels& own, const MetricLabels& last) {
  const char* before = "{";
  for (const MetricLabels* labels : {&common, &own, &last}) {
    for (const auto& [name, value] : *labels) {
      text += fmt::format("{}{}=\"{}\"", before, name, escaped(value, true));
      before = ",";
    }
  }
  if (*before == ',') text += '}';
}

void add_sample(std::string& text, std::string_view name, const MetricLabels& common, const MetricLabels& own,
                std::string_view value, const MetricLabels& last = {}) {
  text += name;
  add_labels(text, common, own, last);
  text += ' ';
  text += value;
  text += '\n';
}

const char* type_name(MetricFamily::Kind kind, MetricFormat format) {
  switch (kind) {
    case MetricFamily::Kind::gauge:
      return "gauge";
    case MetricFamily::Kind::counter:
      return "counter";
    case MetricFamily::Kind::info:
      return format == MetricFormat::openmetrics ? "info" : "gauge";
    case MetricFamily::Kind::histogram:
      return "histogram";
  }
  return "unknown";
}

const char* suffix(MetricFamily::Kind kind) {
  return kind == MetricFamily::Kind::counter ? "_total" : kind == MetricFamily::Kind::info ? "_info" : "";
}

void add_histogram(std::string& text, const std::string& name, const MetricLabels& common, const MetricLabels& own,
                   const Histogram& histogram) {
  uint64_t count = 0;
  for (size_t i = 0; i < histogram.counts.size(); ++i) {
    count += histogram.counts[i];
    const double le = i < histogram.bounds.size() ? histogram.bounds[i] : HUGE_VAL;
    add_sample(text, name + "_bucket", common, own, std::to_string(count), {{"le", bound(le)}});
  }
  add_sample(text, name + "_sum", common, own, number(histogram.sum));
  add_sample(text, name + "_count", common, own, std::to_string(count));
}

/// Calls each(part) with the parts between separators, without blanks around them.
template <class Each>
void for_each_part(std::string_view text, char separator, const Each& each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    part.remove_prefix(std::min(part.find_first_not_of(" \t"), part.size()));
    part = part.substr(0, part.find_last_not_of(" \t") + 1);
    each(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// The weight q of a media range with its parameters: "text/plain;version=0.0.4;q=0.5".
double weight(std::string_view range) {
  double q = 1;
  for_each_part(range, ';', [&](std::string_view part) {
    if (part.starts_with("q=")) q = std::clamp(parse_number(part.substr(2)).value_or(0), 0.0, 1.0);
  });
  return q;
}

}  // namespace

void Histogram::observe(double value) {
  ++counts[static_cast<size_t>(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin())];
  sum += value;
}

MetricFormat format_for(std::string_view accept) {
  double open = 0, plain = 0;
  for_each_part(accept, ',', [&](std::string_view range) {
    for_each_part(range.substr(0, range.find(';')), ';', [&](std::string_view type) {
      if (type == "application/openmetrics-text") open = std::max(open, weight(range));
      if (type == "text/plain" || type == "text/*") plain = std::max(plain, weight(range));
    });
  });
  return open > 0 && open >= plain ? MetricFormat::openmetrics : MetricFormat::prometheus;
}

const char* content_type(MetricFormat format) {
  return format == MetricFormat::openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string to_text(const std::vector<MetricFamily>& families, const MetricLabels& common, MetricFormat format) {
  const bool open = format == MetricFormat::openmetrics;
  std::string text;
  for (const MetricFamily& family : families) {
    if (family.samples.empty() && family.histograms.empty()) continue;
    const std::string name = family.name + suffix(family.kind);
    const std::string& head = open ? family.name : name;
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", head, escaped(family.help, open), head,
                        type_name(family.kind, format));
    if (open && !family.unit.empty()) text += fmt::format("# UNIT {} {}\n", head, family.unit);
    for (const MetricSample& sample : family.samples) {
      add_sample(text, name, common, sample.labels, number(sample.value));
    }
    for (const auto& [labels, histogram] : family.histograms) add_histogram(text, name, common, labels, histogram);
  }
  if (open) text += "# EOF\n";
  return text;
}

}  // namespace trireme
