#pragma once
// What a fine-tuning run leaves in its folder, in the form of run_glue: train_results.json, eval_results.json,
// all_results.json, predict_results_<task>.txt, README.md.

#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "data/glue/task.h"
#include "train/glue/options.h"

namespace trireme {

// Metrics of classification and regression as scipy and scikit-learn define them. All take predictions and labels of
// the same length, at least 1.

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

/// A measurement or a count; counts are written as whole numbers.
using Number = std::variant<double, int64_t>;
using NamedNumbers = std::vector<std::pair<std::string, Number>>;

/// Writes FOLDER/<split>_results.json and updates the numbers in FOLDER/all_results.json. Numbers that are not finite
/// become null.
void write_results(const std::string& folder, const std::string& split, const NamedNumbers& numbers);

/// Prints the numbers as an aligned block to standard output.
void print_results(const std::string& split, const NamedNumbers& numbers);

/// FOLDER/predict_results_<name>.txt: "index<tab>prediction", one row each; classes by name, values as %3.3f.
void write_predictions(const std::string& folder, const std::string& name, const GlueTask& task,
                       std::span<const double> predictions);

/// FOLDER/README.md: the model, its data and options, and the evaluation.
void write_card(const std::string& folder, const GlueOptions& options, const NamedNumbers& evaluation);

}  // namespace trireme
