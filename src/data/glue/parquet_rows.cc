#include "data/glue/parquet_rows.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "data/glue/table_file.h"
#include "data/parquet/column.h"

namespace trireme {
namespace {

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

}  // namespace

std::optional<GlueSet> read_parquet_rows(const GlueTask& task, const std::string& set, const std::string& folder,
                                         const std::string& split, bool labelled) {
  const std::vector<std::string> files = files_of_split(folder, split);
  if (files.empty()) return std::nullopt;
  GlueSet out{set, files[0], {}, {}};
  for (const std::string& file : files) read_file(task, file, labelled, out);
  require(!out.rows.empty(), ErrorKind::data, "{}: the file has no rows", files[0]);
  return out;
}

}  // namespace trireme
