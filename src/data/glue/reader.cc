#include "data/glue/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "data/glue/table_file.h"
#include "data/parquet/column.h"

namespace trireme {
namespace {

// GLUE rows from the Hugging Face hub: Parquet files with the hub's column names.

/// The rows of SPLIT-00000-of-00001.parquet and similar files (also SPLIT.parquet, SPLIT/*.parquet) in the folder of a
/// task; nothing without such files. `split`: "train", "validation_matched", ... Labels are classes by number, or the
/// number to predict; `labelled` false: ignored. Throws Error::data with file and row.
std::optional<GlueSet> read_parquet_rows(const GlueTask& task, const std::string& set, const std::string& folder,
                                         const std::string& split, bool labelled);

namespace fs = std::filesystem;

std::vector<std::string> files_of_split(const std::string& folder, const std::string& split) {
  std::vector<std::string> files;
  const auto take = [&](const fs::path& from, const std::string& begin) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(from, none)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(begin) && name.ends_with(".parquet")) files.push_back(entry.path().string());
    }
  };
  take(folder, split + "-");
  take(folder, split + ".parquet");
  take(fs::path(folder) / split, "");
  std::ranges::sort(files);
  return files;
}

/// The hub's column names of MNLI, AX and MRPC differ from those of the original files.
std::pair<std::string, std::string> column_names(const GlueTask& task) {
  if (task.name == "mnli" || task.name == "ax") return {"premise", "hypothesis"};
  if (task.name == "mrpc") return {"sentence1", "sentence2"};
  return {task.first, task.second};
}

ParquetColumn open_column(const ParquetFile& file, const std::string& name) {
  const ParquetColumnFacts* facts = file.find(name);
  require(facts != nullptr, ErrorKind::data, "{}: column \"{}\" is missing; it has {}", file.path(), name,
          file.describe());
  return {file, *facts};
}

double checked_label(const GlueTask& task, const ParquetCell& cell, const std::string& path, int64_t row) {
  const double value = cell.number.value_or(NAN);
  const bool fits =
      std::isfinite(value) &&
      (task.regression() || (value == std::floor(value) && value >= 0 && value < static_cast<double>(task.classes())));
  require(fits, ErrorKind::data, "{} row {}: label {}, expected {}", path, row,
          cell.text     ? fmt::format("\"{}\"", *cell.text)
          : cell.number ? fmt::format("{}", value)
                        : "missing",
          task.regression() ? "a number" : fmt::format("a class from 0 to {}", task.classes() - 1));
  return value;
}

void read_file(const GlueTask& task, const std::string& path, bool labelled, GlueSet& set) {
  const ParquetFile file(path);
  const auto [first_name, second_name] = column_names(task);
  ParquetColumn first = open_column(file, first_name);
  std::optional<ParquetColumn> second, label;
  if (!second_name.empty()) second.emplace(open_column(file, second_name));
  if (labelled) label.emplace(open_column(file, "label"));
  ParquetCell cell;
  const auto text_of = [&](ParquetColumn& column, std::string& to) {
    column.next(cell);
    if (!cell.text) return false;
    require(cell.text->size() <= kMostRowBytes, ErrorKind::data, "{}: a text of {} bytes, expected at most {}", path,
            cell.text->size(), kMostRowBytes);
    to = *cell.text;
    return true;
  };
  for (int64_t row = 1; row <= file.footer.rows; ++row) {
    GlueRow out;
    bool whole = text_of(first, out.first);
    if (second) whole = text_of(*second, out.second) && whole;
    if (label) {
      label->next(cell);
      out.label = checked_label(task, cell, path, row);
    }
    if (whole) {
      set.rows.push_back(std::move(out));
      continue;
    }
    require(labelled, ErrorKind::data,
            "{} row {}: a text is missing; predictions are numbered by row, so this one cannot be skipped: replace the "
            "null by a text, which may be empty",
            path, row);
    set.dropped.push_back(row);
  }
}

std::optional<GlueSet> read_parquet_rows(const GlueTask& task, const std::string& set, const std::string& folder,
                                         const std::string& split, bool labelled) {
  const std::vector<std::string> files = files_of_split(folder, split);
  if (files.empty()) return std::nullopt;
  GlueSet out{set, files[0], {}, {}};
  for (const std::string& file : files) read_file(task, file, labelled, out);
  require(!out.rows.empty(), ErrorKind::data, "{}: the file has no rows", files[0]);
  return out;
}

namespace fs = std::filesystem;
using Fields = std::vector<std::string_view>;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Fields split_tabs(std::string_view line) {
  Fields fields;
  for (size_t tab; (tab = line.find('\t')) != std::string_view::npos; line.remove_prefix(tab + 1))
    fields.push_back(line.substr(0, tab));
  fields.push_back(line);
  return fields;
}

/// Lines of a text; the last may lack its line end.
class Lines {
 public:
  Lines(std::string_view text, const std::string& path) : rest_(text), path_(path) {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    rest_ = rest_.substr(0, rest_.find_last_not_of("\r\n") + 1);  // a row has a tab, or text
  }
  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    require(line.size() <= kMostRowBytes, ErrorKind::data,
            "{} line {}: {} bytes, expected at most {}; is it a file of tab-separated rows?", path_, number_,
            line.size(), kMostRowBytes);
    return true;
  }
  int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  const std::string& path_;
  int64_t number_ = 0;
};

/// Positions of a row's fields in a file.
struct Columns {
  std::optional<size_t> first, second, label;
};

Columns find_columns(const Fields& header, const GlueTask& task, bool labelled, const std::string& path) {
  const auto find = [&](const std::string& name) -> std::optional<size_t> {
    if (name.empty()) return std::nullopt;
    const auto at = std::ranges::find(header, name);
    require(at != header.end(), ErrorKind::data, "{}: column \"{}\" is missing; its header has {}", path, name,
            fmt::join(header, ", "));
    return static_cast<size_t>(at - header.begin());
  };
  return {find(task.first), find(task.second), labelled ? find(task.label) : std::nullopt};
}

double read_label(const GlueTask& task, std::string_view text, const std::string& path, int64_t line) {
  if (!task.spelled.empty()) {
    const auto at = std::ranges::find(task.spelled, text);
    require(at != task.spelled.end(), ErrorKind::data, "{} line {}: label \"{}\", expected one of {}", path, line, text,
            fmt::join(task.spelled, ", "));
    return static_cast<double>(at - task.spelled.begin());
  }
  const std::optional<double> number = parse_number(text);
  const double value = number.value_or(-1);
  const bool fits =
      task.regression() || (value == std::floor(value) && value >= 0 && value < static_cast<double>(task.classes()));
  require(number.has_value() && fits, ErrorKind::data, "{} line {}: label \"{}\", expected {}", path, line, text,
          task.regression() ? "a number" : fmt::format("a class from 0 to {}", task.classes() - 1));
  return value;
}

/// `keep`: whether a row with these fields belongs to the set.
template <class Keep>
GlueSet read_rows(const GlueTask& task, const std::string& name, const std::string& path, bool labelled, Keep keep) {
  const MappedFile file(path);
  Lines lines(file.text(), path);
  std::string_view line;
  const bool headless = task.name == "cola" && labelled;
  Columns columns;
  if (headless) {
    columns = {3, std::nullopt, 1};
  } else {
    require(lines.next(line), ErrorKind::data, "{}: the file is empty", path);
    columns = find_columns(split_tabs(line), task, labelled, path);
  }
  GlueSet set{name, path, {}, {}};
  while (lines.next(line)) {
    const Fields fields = split_tabs(line);
    const auto lacks = [&](const std::optional<size_t>& column) { return column && *column >= fields.size(); };
    if (lacks(columns.first) || lacks(columns.second) || lacks(columns.label) ||
        (columns.label && fields[*columns.label].empty())) {
      require(labelled, ErrorKind::data,
              "{} line {}: {}, but the texts are in columns up to {}; predictions are numbered by row, so this one "
              "cannot be skipped: add its missing fields, which may be empty",
              path, lines.number(), count_text(fields.size(), "field"),
              1 + std::max(*columns.first, columns.second.value_or(0)));
      set.dropped.push_back(lines.number());
      continue;
    }
    if (!keep(fields)) continue;
    set.rows.push_back({std::string(fields[*columns.first]),
                        columns.second ? std::string(fields[*columns.second]) : std::string(),
                        columns.label ? read_label(task, fields[*columns.label], path, lines.number()) : -1});
  }
  require(!set.rows.empty(), ErrorKind::data, "{}: the file has no rows", path);
  return set;
}

/// The task's folder: the given one or one in it.
std::string task_folder(const GlueTask& task, const std::string& folder) {
  std::vector<std::string> names{task.folder, task.name};
  if (task.name == "ax") names.push_back("diagnostic");
  for (const std::string& name : names) {
    if (fs::is_directory(fs::path(folder) / name)) return (fs::path(folder) / name).string();
  }
  require(fs::is_directory(folder), ErrorKind::io,
          "folder {} is missing; give the folder of the GLUE tasks ({}, ...) or the task's own", folder, task.folder);
  return folder;
}

/// A set of a split: its original file, its name, and the prefix of the hub's files.
struct SetFiles {
  std::string file, set, parquet;
};

std::vector<SetFiles> files_of(const GlueTask& task, GlueSplit split) {
  if (task.name == "ax") return {{"diagnostic.tsv", task.name, "test"}};
  if (split == GlueSplit::train) return {{"train.tsv", task.name, "train"}};
  const std::string stem = split == GlueSplit::validation ? "dev" : "test";
  const std::string parquet = split == GlueSplit::validation ? "validation" : "test";
  if (task.name == "mnli")
    return {{stem + "_matched.tsv", "mnli", parquet + "_matched"},
            {stem + "_mismatched.tsv", "mnli-mm", parquet + "_mismatched"}};
  return {{stem + ".tsv", task.name, parquet}};
}

/// MRPC in Microsoft's files: the rows of dev_ids.tsv are the validation set.
GlueSet read_original_mrpc(const GlueTask& task, const std::string& folder, GlueSplit split) {
  std::string ids = folder + "/dev_ids.tsv";
  if (!fs::exists(ids)) ids = folder + "/mrpc_dev_ids.tsv";
  const MappedFile file(ids);
  std::set<std::pair<std::string, std::string>> validation;
  Lines lines(file.text(), ids);
  for (std::string_view line; lines.next(line);) {
    const Fields fields = split_tabs(line);
    require(fields.size() == 2, ErrorKind::data, "{} line {}: {} fields, expected two ids", ids, lines.number(),
            fields.size());
    validation.emplace(fields[0], fields[1]);
  }
  return read_rows(task, task.name, folder + "/msr_paraphrase_train.txt", true, [&](const Fields& fields) {
    return validation.contains({std::string(fields[1]), std::string(fields[2])}) == (split == GlueSplit::validation);
  });
}

}  // namespace

std::vector<GlueSet> read_glue(const GlueTask& task, const std::string& folder, GlueSplit split) {
  const std::string own = task_folder(task, folder);
  const bool has_its_name = own != folder || fs::path(folder).filename() == task.folder;
  require(task.name != "ax" || split == GlueSplit::test, ErrorKind::usage,
          "the task ax has no labels: it can only be predicted, with a model fine-tuned on mnli");
  const bool labelled = split != GlueSplit::test;
  std::vector<GlueSet> sets;
  for (const auto& [name, set, parquet] : files_of(task, split)) {
    const std::string path = own + "/" + name;
    if (!fs::exists(path)) {
      if (auto rows = read_parquet_rows(task, set, own, parquet, labelled)) {
        sets.push_back(std::move(*rows));
        continue;
      }
    }
    const bool mrpc = task.name == "mrpc" && !fs::exists(path);
    if (mrpc && labelled && fs::exists(own + "/msr_paraphrase_train.txt")) {
      sets.push_back(read_original_mrpc(task, own, split));
      continue;
    }
    if (mrpc && !labelled && fs::exists(own + "/msr_paraphrase_test.txt")) {
      sets.push_back(read_rows(task, set, own + "/msr_paraphrase_test.txt", false, [](const Fields&) { return true; }));
      continue;
    }
    require(fs::exists(path), ErrorKind::io,
            "{}{} and {}-*.parquet beside it are missing; give the folder of the GLUE files with --data-dir, or omit "
            "it to fetch them",
            path, has_its_name ? "" : fmt::format(" or {}/{}/{}", folder, task.folder, name), parquet);
    sets.push_back(read_rows(task, set, path, labelled, [](const Fields&) { return true; }));
  }
  return sets;
}

namespace {

struct Rows {
  const char* set;
  int64_t train, validation, test;  // 0: no such file
};

constexpr Rows kRows[] = {
    {"cola", 8551, 1043, 1063},
    {"sst2", 67349, 872, 1821},
    {"mrpc", 3668, 408, 1725},
    {"stsb", 5749, 1500, 1379},
    {"qqp", 363846, 40430, 390965},
    {"mnli", 392702, 9815, 9796},
    {"mnli-mm", 0, 9832, 9847},
    {"qnli", 104743, 5463, 5463},
    {"rte", 2490, 277, 3000},
    {"wnli", 635, 71, 146},
    {"ax", 0, 0, 1104},
};

}  // namespace

std::optional<int64_t> published_rows(std::string_view set, GlueSplit split) {
  const auto found = std::ranges::find_if(kRows, [&](const Rows& rows) { return set == rows.set; });
  if (found == std::end(kRows)) return std::nullopt;
  const int64_t rows = split == GlueSplit::train        ? found->train
                       : split == GlueSplit::validation ? found->validation
                                                        : found->test;
  return rows == 0 ? std::nullopt : std::optional(rows);
}

}  // namespace trireme
