#pragma once
// What a fine-tuning run leaves in its folder, in the form of run_glue: train_results.json, eval_results.json,
// all_results.json, predict_results_<task>.txt, README.md.

#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "train/glue/metrics.h"
#include "train/glue/options.h"

namespace trireme {

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
