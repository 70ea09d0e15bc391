#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "data/glue/reader.h"
#include "data/glue/table_file.h"

namespace trireme {
namespace {

constexpr const char* kLabel = "label";

std::optional<size_t> column_of(const TextTable& table, const std::string& name) {
  const auto at = std::ranges::find(table.columns, name);
  if (at == table.columns.end()) return std::nullopt;
  return static_cast<size_t>(at - table.columns.begin());
}

size_t need_column(const TextTable& table, const std::string& name) {
  const auto column = column_of(table, name);
  require(column.has_value(), ErrorKind::data, "{}: no column \"{}\"", table.path, name);
  return *column;
}

/// What is to be learned, by the training file (or, without one, the validation file).
GlueTask describe(const TextTable& table) {
  GlueTask task;
  task.name = "None";
  task.label = kLabel;
  std::vector<std::string> texts;
  for (const std::string& column : table.columns) {
    if (column != kLabel) texts.push_back(column);
  }
  require(!texts.empty(), ErrorKind::data, "{}: no column beside \"label\"", table.path);
  if (column_of(table, "sentence1") && column_of(table, "sentence2")) texts = {"sentence1", "sentence2"};
  task.first = texts[0];
  if (texts.size() > 1) task.second = texts[1];

  const size_t label = need_column(table, kLabel);
  std::vector<std::string> labels;
  bool whole = true;
  for (const auto& row : table.rows) {
    labels.push_back(row[label]);
    whole = whole && row[label].find_first_of(".eE") == std::string::npos;
  }
  if (table.numeric[label] && !whole) {
    task.metrics = {GlueMetric::squared_error};
    return task;
  }
  task.metrics = {GlueMetric::accuracy};
  std::ranges::sort(labels, [&](const std::string& a, const std::string& b) {
    return table.numeric[label] ? std::stod(a) < std::stod(b) : a < b;
  });
  labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  task.labels = task.spelled = labels;
  require(labels.size() > 1, ErrorKind::data, "{}: every label is \"{}\"; at least two classes are needed", table.path,
          labels[0]);
  return task;
}

GlueSet rows_of(const TextTable& table, const GlueTask& task, bool labelled) {
  const size_t first = need_column(table, task.first);
  const bool pairs = !task.second.empty();
  const size_t second = pairs ? need_column(table, task.second) : first;
  const size_t label = labelled ? need_column(table, kLabel) : first;
  std::map<std::string, double> ids;
  for (size_t i = 0; i < task.labels.size(); ++i) ids[task.labels[i]] = static_cast<double>(i);
  GlueSet set{task.name, table.path, {}, 0};
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    GlueRow out{row[first], pairs ? row[second] : std::string(), -1};
    if (labelled && task.regression()) {
      require(table.numeric[label], ErrorKind::data, "{}: labels are no numbers, those of the training file are",
              table.path);
      out.label = std::stod(row[label]);
    } else if (labelled) {
      const auto id = ids.find(row[label]);
      require(id != ids.end(), ErrorKind::data, "{} row {}: the training file has no label \"{}\"", table.path, i + 1,
              row[label]);
      out.label = id->second;
    }
    set.rows.push_back(std::move(out));
  }
  return set;
}

}  // namespace

CustomData read_custom(const CustomFiles& files) {
  const std::string& describes = files.train.empty() ? files.validation : files.train;
  require(!describes.empty(), ErrorKind::usage, "data of your own needs --train-file or --validation-file: its labels");
  CustomData data;
  const TextTable first = read_text_table(describes);
  data.task = describe(first);
  if (!files.train.empty()) data.train.push_back(rows_of(first, data.task, true));
  if (!files.validation.empty()) data.validation.push_back(rows_of(read_text_table(files.validation), data.task, true));
  if (!files.test.empty()) data.test.push_back(rows_of(read_text_table(files.test), data.task, false));
  return data;
}

}  // namespace trireme
