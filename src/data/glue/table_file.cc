#include "data/glue/table_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "data/file_signature.h"
#include "text/text_encoding.h"

namespace trireme {
namespace {

constexpr size_t kMostJsonBytes = size_t{256} << 20;
constexpr size_t kMostLineBytes = 4 * kMostRowBytes;  // of a row in any encoding, with its quotes

/// Placeholder of a missing value.
bool is_blank(const std::string& text) {
  static constexpr const char* kBlank[] = {"", "NA", "N/A", "nan", "NaN", "null", "None", "NULL"};
  return std::ranges::find(kBlank, text) != std::end(kBlank);
}

/// Records of a csv text, without quotes.
class Csv {
 public:
  Csv(std::string_view text, const std::string& path, char separator)
      : text_(text), path_(path), separator_(separator), ends_{separator, '\n'} {
    text_ = text_.substr(0, text_.find_last_not_of("\r\n") + 1);  // blank lines at the end are not records
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }
  bool next(std::vector<std::string>& record) {
    if (at_ >= text_.size()) return false;
    ++number_;
    record.clear();
    blank_ = text_.substr(at_).starts_with('\n') || text_.substr(at_).starts_with("\r\n");
    size_t bytes = 0;
    do {
      record.push_back(field());
      bytes += record.back().size();
      require(record.size() <= kMostColumns && bytes <= kMostRowBytes, ErrorKind::data,
              "{} record {}: more than {} fields or {} bytes, the limits of a row; is a quote missing?", path_, number_,
              kMostColumns, kMostRowBytes);
    } while (take(separator_));
    take('\r');
    require(at_ >= text_.size() || take('\n'), ErrorKind::data,
            "{} record {}: text after a closing quote; write a quote inside a quoted field twice", path_, number_);
    return true;
  }
  int64_t number() const { return number_; }
  /// Whether the record is a blank line; a quoted empty text is not.
  bool blank() const { return blank_; }

 private:
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// In tab-separated files a quote that does not enclose a field is a character of the text.
  bool is_quoted() const {
    if (separator_ != '\t') return true;
    if (at_ >= text_.size() || text_[at_] != '"') return false;
    const size_t line_end = std::min(text_.find('\n', at_), text_.size());
    for (size_t at = at_ + 1; at < line_end; ++at) {
      if (text_[at] != '"') continue;
      const char next = at + 1 < text_.size() ? text_[at + 1] : '\n';
      if (next == '\t' || next == '\n' || next == '\r') return true;
      if (next != '"') return false;
      ++at;
    }
    return false;
  }
  std::string field() {
    if (is_quoted() && take('"')) return quoted();
    const size_t end = std::min(text_.find_first_of(ends_, at_), text_.size());
    require(end - at_ <= kMostRowBytes, ErrorKind::data, "{} record {}: a field of {} bytes, expected at most {}",
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
  char separator_;
  std::string ends_;
  size_t at_ = 0;
  int64_t number_ = 0;
  bool blank_ = false;
};

/// Before anything is copied: a file of rows has no long lines.
void check_lines(std::string_view text, const std::string& path) {
  size_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    require(end - at <= kMostLineBytes, ErrorKind::data,
            "{} line {}: {} bytes, expected at most {}; is it a file of rows, one per line?", path, number, end - at,
            kMostLineBytes);
    at = end + 1;
  }
}

/// Finds a header of one column that other separators would split.
void check_separator(const std::string& path, const std::vector<std::string>& columns, char separator,
                     std::string_view advice) {
  static constexpr std::pair<char, const char*> kOthers[] = {
      {',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}};
  if (columns.size() != 1) return;
  for (const auto& [other, name] : kOthers) {
    if (other == separator || columns[0].find(other) == std::string::npos) continue;
    fail(ErrorKind::data, "{}: its header is one column, \"{}\", but its fields seem to be separated by a {}; {}", path,
         columns[0], name, advice.empty() ? fmt::format("use --csv-separator {}", name) : std::string(advice));
  }
}

void require_distinct(const std::string& path, std::vector<std::string> columns) {
  std::ranges::sort(columns);
  const auto twice = std::ranges::adjacent_find(columns);
  require(twice == columns.end(), ErrorKind::data, "{}: its header names the column \"{}\" twice; rename one of them",
          path, twice == columns.end() ? "" : *twice);
}

void find_kinds(TextTable& table) {
  for (size_t c = 0; c < table.columns.size(); ++c) {
    table.text.push_back(
        std::ranges::any_of(table.rows, [&](const auto& row) { return !is_value_text(row[c]) && !is_blank(row[c]); }));
  }
}

TextTable read_csv(std::string_view text, const std::string& path, char separator, std::string_view advice) {
  Csv csv(text, path, separator);
  TextTable table{path, {}, {}, {}, {}, {}, 0};
  require(csv.next(table.columns), ErrorKind::data, "{}: the file is empty", path);
  check_separator(path, table.columns, separator, advice);
  require_distinct(path, table.columns);
  for (std::vector<std::string> record; csv.next(record);) {
    if (csv.blank()) {
      if (table.columns.size() == 1 && table.blank == 0) table.blank = csv.number();
      continue;
    }
    require(record.size() == table.columns.size(), ErrorKind::data, "{} record {}: {} fields, but the header has {}",
            path, csv.number(), record.size(), table.columns.size());
    table.rows.push_back(record);
  }
  for (size_t c = 0; c < table.columns.size(); ++c)
    table.numeric.push_back(std::ranges::all_of(table.rows, [&](const auto& row) { return is_number_text(row[c]); }));
  find_kinds(table);
  table.unusable.assign(table.columns.size(), 0);
  return table;
}

void add_object(TextTable& table, const Json& object, size_t row) {
  require(object.is_object(), ErrorKind::data, "{} row {}: {}, expected an object", table.path, row,
          object.type_name());
  if (table.columns.empty()) {
    require(object.size() <= kMostColumns, ErrorKind::data, "{} row {}: {} members, but at most {} are supported",
            table.path, row, object.size(), kMostColumns);
    for (const auto& item : object.items()) table.columns.push_back(item.key());
    table.numeric.assign(table.columns.size(), 1);
    table.text.assign(table.columns.size(), 0);
    table.unusable.assign(table.columns.size(), 0);
  }
  std::vector<std::string> values;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    const auto found = object.find(table.columns[c]);
    const bool usable = found != object.end() && !found->is_structured() && !found->is_null();
    if (!usable && table.unusable[c] == 0) table.unusable[c] = row;
    if (!usable || !found->is_number()) table.numeric[c] = 0;
    values.push_back(!usable ? std::string() : found->is_string() ? found->get<std::string>() : found->dump());
    if (usable && found->is_string() && !is_value_text(values.back()) && !is_blank(values.back())) table.text[c] = 1;
  }
  table.rows.push_back(std::move(values));
}

TextTable read_json_table(std::string_view text, const std::string& path) {
  TextTable table{path, {}, {}, {}, {}, {}, 0};
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
      require(line.size() <= kMostRowBytes, ErrorKind::data, "{} row {}: {} bytes, expected at most {}", path, row,
              line.size(), kMostRowBytes);
      if (line.find_first_not_of(" \t\r") != std::string_view::npos)
        add_object(table, parse_json(line, fmt::format("{} row {}", path, row)), row);
    }
    return table;
  }
  require(text.size() <= kMostJsonBytes, ErrorKind::data,
          "{} has {} bytes in one JSON text, but at most {} are supported; write one object per line", path,
          text.size(), kMostJsonBytes);
  Json json = parse_json(text, path);
  if (json.is_object() && json.contains("data") && json["data"].is_array()) json = Json(json["data"]);
  if (json.is_object()) json = Json::array({json});
  require(json.is_array(), ErrorKind::data, "{}: {}, expected an object per line or an array of objects", path,
          json.type_name());
  for (size_t i = 0; i < json.size(); ++i) add_object(table, json[i], i + 1);
  return table;
}

}  // namespace

bool is_number_text(const std::string& text) { return parse_number(text).has_value(); }

bool is_value_text(const std::string& text) {
  std::string value = lower_case(text);
  if (is_number_text(value) || value == "true" || value == "false") return true;
  // 9: a digit. Dates with a time have it after a blank or T.
  std::string form = value.substr(0, 10);
  std::ranges::replace_if(
      form, [](char c) { return c >= '0' && c <= '9'; }, '9');
  static constexpr std::string_view kDates[] = {"9999-99-99", "9999/99/99", "99/99/9999", "99.99.9999", "99-99-9999"};
  if (std::ranges::find(kDates, form) != std::end(kDates))
    return value.find_first_not_of("0123456789:.+- tz", form.size()) == std::string::npos;
  for (const std::string_view sign : {"$", "\xe2\x82\xac", "\xc2\xa3", "+"}) {
    if (value.starts_with(sign)) value.erase(0, sign.size());
  }
  if (value.ends_with('%')) value.pop_back();
  std::erase(value, ',');
  return is_number_text(value);
}

TextTable read_text_table(const std::string& path, char separator, const InputEncoding& encoding,
                          std::string_view separator_advice) {
  const bool tabs = path.ends_with(".tsv"), csv = tabs || path.ends_with(".csv");
  require(csv || path.ends_with(".json") || path.ends_with(".jsonl"), ErrorKind::usage,
          "{}: unsupported file type; data files are .csv or .json (also .tsv and .jsonl)", path);
  const MappedFile file(path);
  if (encoding.judges) require_text(file.text(), path);
  if (csv || file.text().size() > kMostJsonBytes) check_lines(file.text(), path);
  const std::string text = as_utf8(std::string(file.text()), encoding.name, encoding.judges, path);
  TextTable table = csv ? read_csv(text, path,
                                   separator != 0 ? separator
                                   : tabs         ? '\t'
                                                  : ',',
                                   separator_advice)
                        : read_json_table(text, path);
  require(!table.rows.empty(), ErrorKind::data, "{}: the file has no rows", path);
  return table;
}

}  // namespace trireme
