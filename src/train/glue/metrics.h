#pragma once
// Metrics of classification and regression as scipy and scikit-learn define them. All take predictions and labels of
// the same length, at least 1.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/glue/task.h"

namespace trireme {

/// Share of equal values.
double accuracy(std::span<const double> predictions, std::span<const double> labels);
/// 2 TP / (2 TP + FP + FN) of class 1; 0 where there is none.
double f1_score(std::span<const double> predictions, std::span<const double> labels);
/// For any number of classes, from the confusion matrix; 0 if one side has a single class. Source: Gorodkin 2004.
double matthews_correlation(std::span<const double> predictions, std::span<const double> labels);
/// NaN if one side is constant.
double pearson_correlation(std::span<const double> x, std::span<const double> y);
/// Pearson correlation of the ranks; equal values share the mean of their ranks.
double spearman_correlation(std::span<const double> x, std::span<const double> y);
double mean_squared_error(std::span<const double> predictions, std::span<const double> labels);

/// Name and value of each metric, in the task's order, then their mean, "combined_score", if there are several.
using NamedMetrics = std::vector<std::pair<std::string, double>>;
NamedMetrics glue_metrics(const GlueTask& task, std::span<const double> predictions, std::span<const double> labels);

}  // namespace trireme
