#include "data/glue/table_file.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme {
namespace {

constexpr size_t kMostJsonBytes = size_t{256} << 20;

bool is_number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// Records of a csv text, quotes taken off.
class Csv {
 public:
  Csv(std::string_view text, const std::string& path) : text_(text), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }
  bool next(std::vector<std::string>& record) {
    if (at_ >= text_.size()) return false;
    ++number_;
    record.clear();
    size_t bytes = 0;
    do {
      record.push_back(field());
      bytes += record.back().size();
      require(record.size() <= kMostColumns && bytes <= kMostRowBytes, ErrorKind::data,
              "{} record {}: more than {} fields or {} bytes, the most of a row; is a quote missing?", path_, number_,
              kMostColumns, kMostRowBytes);
    } while (take(','));
    take('\r');
    require(at_ >= text_.size() || take('\n'), ErrorKind::data,
            "{} record {}: text after a closing quote; a quote inside a quoted field is written twice", path_, number_);
    return true;
  }
  int64_t number() const { return number_; }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string field() {
    if (take('"')) return quoted();
    const size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    require(end - at_ <= kMostRowBytes, ErrorKind::data, "{} record {}: a field of {} bytes, a row has at most {}",
            path_, number_, end - at_, kMostRowBytes);
    std::string value(text_.substr(at_, end - at_));
    at_ = end;
    if (value.ends_with('\r')) value.pop_back();
    return value;
  }
  std::string quoted() {
    std::string value;
    while (true) {
      const size_t end = text_.find('"', at_);
      require(end != std::string_view::npos && end - at_ + value.size() <= kMostRowBytes, ErrorKind::data,
              "{} record {}: a quoted field does not end within {} bytes", path_, number_, kMostRowBytes);
      value.append(text_, at_, end - at_);
      at_ = end + 1;
      if (!take('"')) return value;
      value += '"';
    }
  }

  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  int64_t number_ = 0;
};

TextTable read_csv(const std::string& path) {
  const MappedFile file(path);
  Csv csv(file.text(), path);
  TextTable table{path, {}, {}, {}};
  require(csv.next(table.columns), ErrorKind::data, "{}: the file is empty", path);
  for (std::vector<std::string> record; csv.next(record);) {
    if (record.size() == 1 && record[0].empty()) continue;  // a blank line
    require(record.size() == table.columns.size(), ErrorKind::data, "{} record {}: {} fields, the header has {}", path,
            csv.number(), record.size(), table.columns.size());
    table.rows.push_back(record);
  }
  for (size_t c = 0; c < table.columns.size(); ++c)
    table.numeric.push_back(std::ranges::all_of(table.rows, [&](const auto& row) { return is_number(row[c]); }));
  return table;
}

void add_object(TextTable& table, const Json& object, size_t row) {
  require(object.is_object(), ErrorKind::data, "{} row {}: {}, expected an object", table.path, row,
          object.type_name());
  if (table.columns.empty()) {
    require(object.size() <= kMostColumns, ErrorKind::data, "{} row {}: {} members, at most {} are read", table.path,
            row, object.size(), kMostColumns);
    for (const auto& item : object.items()) table.columns.push_back(item.key());
    table.numeric.assign(table.columns.size(), 1);
  }
  std::vector<std::string> values;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const auto found = object.find(table.columns[c]);
    require(found != object.end() && !found->is_structured() && !found->is_null(), ErrorKind::data,
            "{} row {}: \"{}\" is missing or no text or number", table.path, row, table.columns[c]);
    if (!found->is_number()) table.numeric[c] = 0;
    values.push_back(found->is_string() ? found->get<std::string>() : found->dump());
  }
  table.rows.push_back(std::move(values));
}

TextTable read_json_table(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  TextTable table{path, {}, {}, {}};
  const size_t first = text.find_first_not_of(" \t\r\n");
  require(first != std::string_view::npos, ErrorKind::data, "{}: the file is empty", path);
  const size_t first_end = std::min(text.find('\n', first), text.size());
  const bool per_line = text[first] == '{' && first_end - first <= kMostRowBytes &&
                        Json::accept(text.substr(first, first_end - first)) &&
                        text.find_first_not_of(" \t\r\n", first_end) != std::string_view::npos;
  if (per_line) {
    size_t row = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++row;
      require(line.size() <= kMostRowBytes, ErrorKind::data, "{} row {}: {} bytes, a row has at most {}", path, row,
              line.size(), kMostRowBytes);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos)
        add_object(table, parse_json(line, fmt::format("{} row {}", path, row)), row);
    }
    return table;
  }
  require(text.size() <= kMostJsonBytes, ErrorKind::data,
          "{} has {} bytes in one JSON text, at most {} are read; write an object per line", path, text.size(),
          kMostJsonBytes);
  Json json = parse_json(text, path);
  if (json.is_object() && json.contains("data") && json["data"].is_array()) json = Json(json["data"]);
  if (json.is_object()) json = Json::array({json});
  require(json.is_array(), ErrorKind::data, "{}: {}, expected an object per line or an array of objects", path,
          json.type_name());
  for (size_t i = 0; i < json.size(); ++i) add_object(table, json[i], i + 1);
  return table;
}

}  // namespace

TextTable read_text_table(const std::string& path) {
  const bool csv = path.ends_with(".csv");
  require(csv || path.ends_with(".json") || path.ends_with(".jsonl"), ErrorKind::usage,
          "{}: data files are .csv or .json", path);
  TextTable table = csv ? read_csv(path) : read_json_table(path);
  require(!table.rows.empty(), ErrorKind::data, "{}: the file has no rows", path);
  return table;
}

}  // namespace trireme
