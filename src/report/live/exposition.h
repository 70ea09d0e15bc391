#pragma once
// Metrics as text for Prometheus and for collectors of the OpenMetrics standard: what one scrape receives. Pure.
// Formats: Prometheus text 0.0.4, OpenMetrics 1.0.0.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

/// (name, value); names are of [a-zA-Z_][a-zA-Z0-9_]*, values any text.
using MetricLabels = std::vector<std::pair<std::string, std::string>>;

struct MetricSample {
  double value = 0;
  MetricLabels labels = {};
};

/// Counts of observations up to each bound, in ascending order, and their sum.
struct Histogram {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;  ///< one more than bounds: observations above the bound before, up to this one
  double sum = 0;

  explicit Histogram(std::vector<double> of_bounds) : bounds(std::move(of_bounds)), counts(bounds.size() + 1) {}
  void observe(double value);
};

struct MetricFamily {
  enum class Kind : uint8_t { gauge, counter, info, histogram };
  std::string name;  ///< without the suffixes that formats demand: _total of a counter, _info
  Kind kind = Kind::gauge;
  std::string unit = {};  ///< the name ends with it; empty: none
  std::string help;
  std::vector<MetricSample> samples = {};
  std::vector<std::pair<MetricLabels, Histogram>> histograms = {};  ///< of Kind::histogram, in place of samples
};

enum class MetricFormat : uint8_t { prometheus, openmetrics };

/// The format that a client's Accept header prefers; Prometheus text if it names none of both.
MetricFormat format_for(std::string_view accept);
/// "text/plain; version=0.0.4; charset=utf-8"
const char* content_type(MetricFormat format);

/// Families without samples are left out. Every sample gets the labels `common`, too.
std::string to_text(const std::vector<MetricFamily>& families, const MetricLabels& common, MetricFormat format);

}  // namespace trireme
