#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/text.h"
#include "data/glue/reader.h"
#include "data/glue/table_file.h"

namespace trireme {
namespace {

std::optional<size_t> column_of(const TextTable& table, const std::string& name) {
  const auto at = std::ranges::find(table.columns, name);
  if (at == table.columns.end()) return std::nullopt;
  return static_cast<size_t>(at - table.columns.begin());
}

size_t need_column(const TextTable& table, const std::string& name) {
  const auto column = column_of(table, name);
  require(column.has_value(), ErrorKind::data, "{}: column \"{}\" is missing; it has {}", table.path, name,
          fmt::join(table.columns, ", "));
  require(table.unusable[*column] == 0, ErrorKind::data, "{} row {}: \"{}\" is missing or neither text nor number",
          table.path, table.unusable[*column], name);
  return *column;
}

/// Column names of row numbers, whatever the values are.
bool names_rows(std::string_view column) {
  static constexpr const char* kNames[] = {"", "idx", "id", "index", "guid", "uid", "row", "row_id", "unnamed: 0"};
  const std::string name = lower_case(column);
  return std::ranges::find(kNames, name) != std::end(kNames);
}

/// The text columns if none were requested, and the columns not used as text.
struct TextColumns {
  std::vector<std::string> texts, others;
};

bool holds_numbers(const TextTable& table, size_t column) {
  return std::ranges::none_of(table.rows, [&](const auto& row) {
    const std::string& text = row[column];
    return is_value_text(text) && !is_number_text(text);
  });
}

TextColumns find_texts(const TextTable& table, const CustomFiles& files) {
  TextColumns found;
  const bool pair = column_of(table, "sentence1") && column_of(table, "sentence2");
  const auto collect = [&](bool row_names) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const std::string& name = table.columns[c];
      if (name != files.label && table.text[c] && names_rows(name) == row_names) found.texts.push_back(name);
    }
  };
  collect(false);
  if (found.texts.empty()) collect(true);
  if (pair) found.texts = {"sentence1", "sentence2"};
  if (!files.texts.empty()) found.texts = files.texts;
  if (found.texts.size() > 2) found.texts.resize(2);
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const std::string& name = table.columns[c];
    if (name == files.label || std::ranges::find(found.texts, name) != found.texts.end()) continue;
    const char* why = table.unusable[c] > 0 ? " (not text in every row)"
                      : !table.text[c]   ? (holds_numbers(table, c) ? " (numbers)" : " (dates, amounts, true or false)")
                      : names_rows(name) ? " (names of rows)"
                                         : "";
    found.others.push_back(name + why);
  }
  return found;
}

/// The columns found automatically.
void check_texts(const TextTable& table, const CustomFiles& files, const TextColumns& columns) {
  require(table.columns.size() > 1 || column_of(table, files.label) == std::nullopt, ErrorKind::data,
          "{}: \"{}\" is the only column; a text column is missing", table.path, files.label);
  require(!columns.texts.empty(), ErrorKind::data, "{}: text columns are missing: {}; select one with --text-columns",
          table.path, fmt::join(columns.others, ", "));
  for (const std::string& name : columns.texts) {
    require(name != files.label, ErrorKind::usage, "--text-columns and --label-column both name \"{}\"", name);
    require(!files.texts.empty() || table.text[need_column(table, name)], ErrorKind::data,
            "{}: column \"{}\" has numbers, expected text; select the texts with --text-columns", table.path, name);
  }
}

std::vector<std::string> shortened(const std::vector<std::string>& texts, size_t most_bytes) {
  std::vector<std::string> out;
  for (const std::string& text : texts) out.push_back(printable(text, most_bytes));
  return out;
}

std::string in_words(const TextColumns& columns, const GlueTask& task, const std::string& label) {
  constexpr size_t kShown = 5, kShownBytes = 80;
  std::string text =
      fmt::format("text{} \"{}\", label \"{}\": ", columns.texts.size() > 1 ? "s" : "",
                  fmt::join(shortened(columns.texts, kShownBytes), "\" and \""), printable(label, kShownBytes));
  if (task.regression()) {
    text += "a number to predict";
  } else {
    const std::vector<std::string> shown(
        task.labels.begin(), task.labels.begin() + static_cast<ptrdiff_t>(std::min(kShown, task.labels.size())));
    text += fmt::format("{} ({}{})", count_text(task.labels.size(), "class"),
                        fmt::join(shortened(shown, kShownBytes), ", "), task.labels.size() > kShown ? ", ..." : "");
  }
  if (!columns.others.empty())
    text += fmt::format("; not used: {}", fmt::join(shortened(columns.others, kShownBytes), ", "));
  return text;
}

/// Warns of classes that may be meant as numbers.
std::string doubt_of(const GlueTask& task, const TextTable& table, const std::string& label) {
  if (task.regression() || !std::ranges::all_of(task.labels, is_number_text)) return {};
  const bool written_as_text = !table.numeric[*column_of(table, label)];
  const bool point =
      std::ranges::any_of(task.labels, [](const std::string& text) { return text.find('.') != std::string::npos; });
  if (written_as_text && point)
    return fmt::format(
        "{}: labels like \"{}\" are text, so they are {} classes; write them without quotes for regression", table.path,
        task.labels.back(), task.labels.size());
  constexpr size_t kMany = 20;  // tasks with integer classes do not have that many on so few rows
  if (task.labels.size() >= kMany && task.labels.size() * 4 >= table.rows.size())
    return fmt::format(
        "{}: {} rows have {} distinct integers as labels, which are classes; write them with a point (\"{}.0\") for "
        "regression",
        table.path, table.rows.size(), task.labels.size(), task.labels.back());
  return {};
}

/// The task, according to the training file (or, without one, the validation file).
GlueTask describe(const TextTable& table, const CustomFiles& files, const std::vector<std::string>& texts) {
  GlueTask task;
  task.name = "None";
  task.label = files.label;
  task.first = texts[0];
  if (texts.size() > 1) task.second = texts[1];

  const size_t label = need_column(table, task.label);
  std::set<std::string> distinct;
  bool whole = true;
  for (const auto& row : table.rows) {
    distinct.insert(row[label]);
    whole = whole && row[label].find_first_of(".eE") == std::string::npos;
  }
  if (table.numeric[label] && !whole) {
    task.metrics = {GlueMetric::squared_error};
    return task;
  }
  task.metrics = {GlueMetric::accuracy};
  std::vector<std::string> labels(distinct.begin(), distinct.end());
  constexpr size_t kMany = 1000;  // data sets of intents and topics have some hundred
  require(labels.size() <= kMany || labels.size() * 2 <= table.rows.size(), ErrorKind::data,
          "{}: {} rows have {} different values in \"{}\", such as \"{}\", which are too many for classes; name the "
          "column of the classes with --label-column, or for regression write the numbers with a point",
          table.path, table.rows.size(), labels.size(), task.label, printable(labels[0], 80));
  if (table.numeric[label])
    std::ranges::sort(labels, {}, [](const std::string& text) { return std::pair(parse_number(text), text); });
  task.labels = task.spelled = labels;
  require(labels.size() > 1, ErrorKind::data, "{}: every label is \"{}\"; at least two classes are needed", table.path,
          labels[0]);
  return task;
}

GlueSet rows_of(const TextTable& table, const GlueTask& task, bool labelled) {
  const size_t first = need_column(table, task.first);
  const bool pairs = !task.second.empty();
  const size_t second = pairs ? need_column(table, task.second) : first;
  const size_t label = labelled ? need_column(table, task.label) : first;
  std::map<std::string, double> ids;
  for (size_t i = 0; i < task.labels.size(); ++i) ids[task.labels[i]] = static_cast<double>(i);
  GlueSet set{task.name, table.path, {}, {}};
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const auto& row = table.rows[i];
    GlueRow out{row[first], pairs ? row[second] : std::string(), -1};
    if (labelled && task.regression()) {
      require(table.numeric[label], ErrorKind::data, "{}: labels are not numbers, but those of the training file are",
              table.path);
      const std::optional<double> number = parse_number(row[label]);
      require(number.has_value(), ErrorKind::data, "{} row {}: label \"{}\" is not a finite number", table.path, i + 1,
              row[label]);
      out.label = *number;
    } else if (labelled) {
      const auto id = ids.find(row[label]);
      require(id != ids.end(), ErrorKind::data, "{} row {}: label \"{}\" does not occur in the training file",
              table.path, i + 1, row[label]);
      out.label = id->second;
    }
    set.rows.push_back(std::move(out));
  }
  return set;
}

}  // namespace

CustomData read_custom(const CustomFiles& files) {
  const std::string& describes = files.train.empty() ? files.validation : files.train;
  require(!describes.empty(), ErrorKind::usage, "your own data needs --train-file or --validation-file: its labels");
  CustomData data;
  const auto read = [&](const std::string& path) { return read_text_table(path, files.separator, files.encoding); };
  const TextTable first = read(describes);
  need_column(first, files.label);
  const TextColumns columns = find_texts(first, files);
  check_texts(first, files, columns);
  data.task = describe(first, files, columns.texts);
  data.columns = first.path + ": " + in_words(columns, data.task, files.label);
  data.doubt = doubt_of(data.task, first, files.label);
  if (!files.train.empty()) data.train.push_back(rows_of(first, data.task, true));
  if (!files.validation.empty()) data.validation.push_back(rows_of(read(files.validation), data.task, true));
  if (!files.test.empty()) {
    const TextTable test = read(files.test);
    require(test.blank == 0, ErrorKind::data,
            "{} record {}: a blank line; predictions are numbered by row, so it cannot be skipped: write \"\" for an "
            "empty text, or remove the line",
            test.path, test.blank);
    data.test.push_back(rows_of(test, data.task, false));
  }
  return data;
}

}  // namespace trireme
