#include "train/glue/results.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

/// Sorted by name, like run_glue's files.
std::string text_of(const Json& numbers) { return nlohmann::json(numbers).dump(4) + "\n"; }

Json json_of(const Number& number) {
  if (const auto* count = std::get_if<int64_t>(&number)) return *count;
  const double value = std::get<double>(number);
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

std::string text_of(const Number& number) {
  if (const auto* count = std::get_if<int64_t>(&number)) return std::to_string(*count);
  return fmt::format("{:.4f}", std::get<double>(number));
}

}  // namespace

void write_results(const std::string& folder, const std::string& split, const NamedNumbers& numbers) {
  Json own = Json::object();
  for (const auto& [name, value] : numbers) own[name] = json_of(value);
  write_text(folder + "/" + split + "_results.json", text_of(own));
  const std::string path = folder + "/all_results.json";
  Json all = std::filesystem::exists(path) ? read_json(path) : Json::object();
  all.update(own);
  write_text(path, text_of(all));
}

void print_results(const std::string& split, const NamedNumbers& numbers) {
  size_t width = 0;
  for (const auto& number : numbers) width = std::max(width, number.first.size());
  fmt::print("***** {} metrics *****\n", split);
  for (const auto& [name, value] : numbers) fmt::print("  {:<{}} = {:>12}\n", name, width, text_of(value));
  std::fflush(stdout);
}

void write_predictions(const std::string& folder, const std::string& name, const GlueTask& task,
                       std::span<const double> predictions) {
  std::string text = "index\tprediction\n";
  for (size_t i = 0; i < predictions.size(); ++i) {
    text += task.regression() ? fmt::format("{}\t{:3.3f}\n", i, predictions[i])
                              : fmt::format("{}\t{}\n", i, task.labels[static_cast<size_t>(predictions[i])]);
  }
  write_text(fmt::format("{}/predict_results_{}.txt", folder, name), text);
}

void write_card(const std::string& folder, const GlueOptions& options, const NamedNumbers& evaluation) {
  const Config& config = options.config();
  const std::string data = options.rows.task.empty() ? config.data.train : "GLUE " + options.rows.task;
  std::string text = fmt::format(
      "# {} fine-tuned on {}\n\nMade by `trireme glue`: {} epochs, learning rate {}, {} rows per device, {} schedule, "
      "seed {}.\n",
      std::filesystem::path(config.model.init).filename().string(), data, options.epochs, config.optim.learning_rate,
      config.batch.micro, options.schedule_name, config.run.seed);
  if (!evaluation.empty()) text += "\n| evaluation | |\n|---|---|\n";
  for (const auto& [name, value] : evaluation) text += fmt::format("| {} | {} |\n", name, text_of(value));
  write_text(folder + "/README.md", text);
}

}  // namespace trireme
