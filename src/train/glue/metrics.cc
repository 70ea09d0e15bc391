#include "train/glue/results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace trireme {
namespace {

double mean(std::span<const double> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

/// Whether all are finite and at least two differ.
bool varies(std::span<const double> x) {
  return std::ranges::none_of(x, [](double v) { return std::isnan(v); }) &&
         std::ranges::any_of(x, [&](double v) { return v != x[0]; });
}

/// Rank of each value from 1; equal values share the mean of their ranks.
std::vector<double> ranks(std::span<const double> x) {
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) { return x[a] < x[b]; });
  std::vector<double> out(x.size());
  for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && x[order[end]] == x[order[begin]]) ++end;
    for (size_t i = begin; i < end; ++i) out[order[i]] = 0.5 * static_cast<double>(begin + 1 + end);
  }
  return out;
}

double value_of(GlueMetric metric, std::span<const double> predictions, std::span<const double> labels) {
  switch (metric) {
    case GlueMetric::accuracy:
      return accuracy(predictions, labels);
    case GlueMetric::f1:
      return f1_score(predictions, labels);
    case GlueMetric::matthews:
      return matthews_correlation(predictions, labels);
    case GlueMetric::pearson:
      return pearson_correlation(predictions, labels);
    case GlueMetric::spearman:
      return spearman_correlation(predictions, labels);
    case GlueMetric::squared_error:
      return mean_squared_error(predictions, labels);
  }
  return 0;
}

}  // namespace

double accuracy(std::span<const double> predictions, std::span<const double> labels) {
  double equal = 0;
  for (size_t i = 0; i < labels.size(); ++i) equal += predictions[i] == labels[i];
  return equal / static_cast<double>(labels.size());
}

double f1_score(std::span<const double> predictions, std::span<const double> labels) {
  double hits = 0, either = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    hits += predictions[i] == 1 && labels[i] == 1;
    either += static_cast<double>(predictions[i] == 1) + static_cast<double>(labels[i] == 1);
  }
  return either > 0 ? 2 * hits / either : 0;
}

double matthews_correlation(std::span<const double> predictions, std::span<const double> labels) {
  std::map<double, double> predicted, there;  // how often each class
  double right = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    predicted[predictions[i]] += 1;
    there[labels[i]] += 1;
    right += predictions[i] == labels[i];
  }
  const auto n = static_cast<double>(labels.size());
  double cross = 0, predicted_squares = 0, there_squares = 0;
  for (const auto& [value, count] : predicted) {
    predicted_squares += count * count;
    if (const auto found = there.find(value); found != there.end()) cross += count * found->second;
  }
  for (const auto& [value, count] : there) there_squares += count * count;
  const double spread = (n * n - predicted_squares) * (n * n - there_squares);
  return spread > 0 ? (right * n - cross) / std::sqrt(spread) : 0;
}

double pearson_correlation(std::span<const double> x, std::span<const double> y) {
  if (!varies(x) || !varies(y)) return std::nan("");
  const double mx = mean(x), my = mean(y);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mx) * (y[i] - my);
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
  }
  return std::clamp(xy / std::sqrt(xx) / std::sqrt(yy), -1.0, 1.0);
}

double spearman_correlation(std::span<const double> x, std::span<const double> y) {
  if (!varies(x) || !varies(y)) return std::nan("");
  const auto of_x = ranks(x), of_y = ranks(y);
  return pearson_correlation(of_x, of_y);
}

double mean_squared_error(std::span<const double> predictions, std::span<const double> labels) {
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) sum += (predictions[i] - labels[i]) * (predictions[i] - labels[i]);
  return sum / static_cast<double>(labels.size());
}

NamedMetrics glue_metrics(const GlueTask& task, std::span<const double> predictions, std::span<const double> labels) {
  NamedMetrics out;
  double sum = 0;
  for (const GlueMetric metric : task.metrics) {
    out.emplace_back(name_of(metric), value_of(metric, predictions, labels));
    sum += out.back().second;
  }
  if (out.size() > 1) out.emplace_back("combined_score", sum / static_cast<double>(task.metrics.size()));
  return out;
}

}  // namespace trireme
