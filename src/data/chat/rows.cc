#include "data/chat/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "data/glue/table_file.h"
#include "data/parquet/nested.h"
#include "data/prepare/byte_source.h"
#include "text/chat/python_text.h"
#include "text/text_encoding.h"

namespace trireme::chat {
namespace {

/// Complete lines of a source.
class Lines {
 public:
  explicit Lines(const std::string& path) : path_(path), source_(open_source(path)) {}

  /// The next line without its end; false after the last.
  bool next(std::string_view& line) {
    text_.erase(0, used_);
    used_ = 0;
    size_t end = text_.find('\n');
    for (size_t searched = text_.size(); end == std::string::npos; searched = text_.size()) {
      require(text_.size() <= kMostLineBytes, ErrorKind::data, "{} line {}: longer than {} bytes, the limit", path_,
              number_ + 1, kMostLineBytes);
      constexpr size_t kBlock = size_t{1} << 18;
      text_.resize(searched + kBlock);
      text_.resize(searched + source_->read(text_.data() + searched, kBlock));
      if (text_.size() == searched) break;
      end = text_.find('\n', searched);
    }
    if (end == std::string::npos && text_.empty()) return false;
    line = std::string_view(text_).substr(0, end);
    used_ = end == std::string::npos ? text_.size() : end + 1;
    ++number_;
    if (number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    return true;
  }
  uint64_t number() const { return number_; }

 private:
  const std::string& path_;
  std::unique_ptr<ByteSource> source_;
  std::string text_;
  size_t used_ = 0;
  uint64_t number_ = 0;
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

bool wants(const RowHandlers& handlers, uint64_t row) { return !handlers.wants || handlers.wants(row); }

/// One object. advice: what helps if it is not one. Returns whether to continue.
bool give(const RowHandlers& handlers, uint64_t row, const Json& object, const std::string& advice = "") {
  if (!object.is_object())
    return handlers.fault(row, fmt::format("{}, expected an object{}", object.type_name(), advice));
  return handlers.row(row, object);
}

/// The elements of a JSON array as texts, one at a time, so that only the longest one has to fit into memory.
class ArrayElements {
 public:
  explicit ArrayElements(const std::string& path) : path_(path), source_(open_source(path)) {
    is_array_ = first_character() == '[';
  }

  /// Else the file is read as lines.
  bool is_array() const { return is_array_; }

  /// False after the last one.
  bool next(std::string& element) {
    if (ended_) return false;
    element.clear();
    size_t depth = 0;
    bool quoted = false, escaped = false;
    for (int c; (c = character()) >= 0;) {
      const bool ends = !quoted && depth == 0 && (c == ',' || c == ']');
      if (ends) return end(element, c == ']');
      element += static_cast<char>(c);
      require(element.size() <= kMostLineBytes, ErrorKind::data, "{} row {}: longer than {} bytes, the limit", path_,
              number_ + 1, kMostLineBytes);
      if (quoted) {
        quoted = escaped || c != '"';
        escaped = !escaped && c == '\\';
      } else {
        quoted = c == '"';
        if (c == '{' || c == '[') ++depth;
        if ((c == '}' || c == ']') && depth > 0) --depth;
      }
    }
    fail(ErrorKind::data, "{}: its JSON array does not end: row {} begins, but the file ends before \"]\"", path_,
         number_ + 1);
  }
  uint64_t number() const { return number_; }

 private:
  bool end(const std::string& element, bool last) {
    ended_ = last;
    if (last) {
      const int more = first_character();
      require(more < 0, ErrorKind::data, "{}: found \"{}\" after the end of its JSON array, expected nothing", path_,
              static_cast<char>(more));
      if (number_ == 0 && is_empty(element)) return false;
    }
    ++number_;
    require(!is_empty(element), ErrorKind::data, "{} row {}: nothing before \"{}\"; remove a comma", path_, number_,
            last ? ']' : ',');
    return true;
  }
  static bool is_empty(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

  int first_character() {
    int c = character();
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n') c = character();
    return c;
  }
  /// -1 at the end.
  int character() {
    if (at_ == size_) {
      size_ = source_->read(buffer_.data(), buffer_.size());
      at_ = begun_ || !std::string_view(buffer_.data(), size_).starts_with("\xEF\xBB\xBF") ? 0 : 3;
      begun_ = true;
      if (at_ == size_) return -1;
    }
    return static_cast<uint8_t>(buffer_[at_++]);
  }

  const std::string& path_;
  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_ = std::vector<char>(size_t{1} << 18);
  size_t at_ = 0, size_ = 0;
  uint64_t number_ = 0;
  bool begun_ = false, is_array_ = false, ended_ = false;
};

/// What helps where a row is a list.
std::string advice_on_list(const Json& list, std::string_view text) {
  const bool messages = !list.empty() && list[0].is_object() && (list[0].contains("role") || list[0].contains("from"));
  return messages ? "; a list of messages needs a key: {\"messages\": [...]}" : advice_on_json(text);
}

/// One row's JSON text. Returns whether to continue.
bool give_text(const RowHandlers& handlers, uint64_t row, std::string_view text, const char* where) {
  Json object;
  try {
    object = parse_json(text, where);
  } catch (const Error& error) {
    return handlers.fault(row, error.what() + advice_on_json(text));
  }
  return give(handlers, row, object, object.is_array() ? advice_on_list(object, text) : "");
}

void read_json_lines(const std::string& path, const RowHandlers& handlers) {
  Lines lines(path);
  for (std::string_view line; lines.next(line);) {
    if (is_blank(line) || !wants(handlers, lines.number())) continue;
    if (!give_text(handlers, lines.number(), line, "the line")) return;
  }
}

void read_json_file(const std::string& path, const RowHandlers& handlers) {
  ArrayElements elements(path);
  if (!elements.is_array()) return read_json_lines(path, handlers);
  for (std::string text; elements.next(text);) {
    if (wants(handlers, elements.number()) && !give_text(handlers, elements.number(), text, "the row")) return;
  }
}

void read_table(const std::string& path, const RowHandlers& handlers) {
  {
    EncodingJudge judge;
    judge.add(MappedFile(path).text());
    if (const auto found = judge.verdict(true))
      fail(ErrorKind::data,
           "{}: not UTF-8 from byte {} on: it seems to be text in {}; convert it with iconv -f {} -t UTF-8", path,
           found->offset, found->name.empty() ? "another encoding" : found->name,
           found->name.empty() ? "ENCODING" : found->name);
  }
  const TextTable table = read_text_table(path, 0, {}, "write it with commas, or as .tsv with tabs");
  for (size_t i = 0; i < table.rows.size(); ++i) {
    if (!wants(handlers, i + 1)) continue;
    Json object = Json::object();
    std::string broken;
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const std::string& text = table.rows[i][c];
      if (first_invalid(text)) broken = table.columns[c];
      object[table.columns[c]] = text;
    }
    const bool on = broken.empty() ? handlers.row(i + 1, object)
                                   : handlers.fault(i + 1, fmt::format("\"{}\" is not UTF-8", broken));
    if (!on) return;
  }
}

/// Columns of a Parquet file, row by row.
class ParquetRows {
 public:
  explicit ParquetRows(const std::string& path) : file_(path) {
    for (const ParquetColumnFacts& facts : file_.footer.columns) {
      if (!facts.flat) continue;
      if (!is_readable(facts.type, facts.meaning)) {
        leave_out(facts.name, facts.type);
        continue;
      }
      names_.push_back(facts.name);
      columns_.emplace_back(file_, facts);
    }
    for (const ParquetNested& nested : file_.footer.nested) {
      const auto unreadable = std::ranges::find_if_not(
          nested.leaves, [](const ParquetLeaf& leaf) { return is_readable(leaf.type, leaf.meaning); });
      if (unreadable != nested.leaves.end()) {
        leave_out(nested.root.name, unreadable->type);
        continue;
      }
      nested_names_.push_back(nested.root.name);
      nested_.emplace_back(file_, nested);
    }
  }

  uint64_t size() const { return static_cast<uint64_t>(file_.footer.rows); }

  /// The next row. Returns the name of a column whose text is not UTF-8; empty: none.
  std::string next(Json& object) {
    object = Json::object();
    std::string broken;
    for (size_t c = 0; c < columns_.size(); ++c) {
      ParquetCell cell;
      columns_[c].next(cell);
      if (cell.text) {
        require(cell.text->size() <= kMostLineBytes, ErrorKind::data,
                "{}: a text of {} bytes in column \"{}\", expected at most {}", file_.path(), cell.text->size(),
                names_[c], kMostLineBytes);
        if (first_invalid(*cell.text)) broken = names_[c];
      }
      object[names_[c]] = json_of(cell);
    }
    for (size_t c = 0; c < nested_.size(); ++c) {
      bool valid = true;
      nested_[c].next(object[nested_names_[c]], valid);
      if (!valid) broken = nested_names_[c];
    }
    return broken;
  }

 private:
  void leave_out(const std::string& column, ParquetType type) const {
    log::write_once(log::Level::warning,
                    fmt::format("{}: column \"{}\" is not read: it has {} of an unsupported kind; supported: strings, "
                                "numbers, dates, times and decimals, and lists and structures of them",
                                file_.path(), column, name_of(type)));
  }

  ParquetFile file_;
  std::vector<std::string> names_, nested_names_;
  std::vector<ParquetColumn> columns_;
  std::vector<ParquetNestedColumn> nested_;
};

void read_parquet(const std::string& path, const RowHandlers& handlers) {
  ParquetRows rows(path);
  for (uint64_t row = 1; row <= rows.size(); ++row) {
    Json object;
    const std::string broken = rows.next(object);
    if (!wants(handlers, row)) continue;
    const bool on =
        broken.empty() ? handlers.row(row, object) : handlers.fault(row, fmt::format("\"{}\" is not UTF-8", broken));
    if (!on) return;
  }
}

}  // namespace

bool is_row_file(std::string_view name) {
  constexpr std::string_view kEndings[] = {".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"};
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (name.ends_with(packed)) name.remove_suffix(packed.size());
  }
  return std::ranges::any_of(kEndings, [&](std::string_view ending) { return name.ends_with(ending); });
}

void read_rows(const std::string& path, const RowHandlers& handlers) {
  std::string_view name = path;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  const bool packed = name.size() < path.size();
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return read_json_lines(path, handlers);
  if (name.ends_with(".json")) return read_json_file(path, handlers);
  if (!packed && (name.ends_with(".csv") || name.ends_with(".tsv"))) return read_table(path, handlers);
  if (!packed && name.ends_with(".parquet")) return read_parquet(path, handlers);
  fail(ErrorKind::usage,
       "{}: unknown format; supported names end in .jsonl or .json (also with .gz or .zst), .csv, .tsv, .parquet",
       path);
}

namespace {

constexpr std::pair<std::string_view, const char*> kFormats[] = {
    {"\x1f\x8b", "the file is compressed by gzip; let its name end in .gz"},
    {"\x28\xb5\x2f\xfd", "the file is compressed by zstd; let its name end in .zst"},
    {"PAR1", "the file is a Parquet file; let its name end in .parquet"},
    {"PK\x03\x04", "the file is a zip archive; extract it"},
    {"BZh", "the file is compressed by bzip2; decompress it"},
    {"\xfd"
     "7zXZ",
     "the file is compressed by xz; decompress it"},
    {"\xff\xfe", "the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"}};

bool is_in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The words outside of strings in double quotes that JSON does not have, or "'" for a string in single quotes.
std::string_view foreign_word(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      ++at;
    } else if (c == '\'') {
      return "'";
    } else if (is_in_word(c)) {
      size_t end = at;
      while (end < text.size() && is_in_word(text[end])) ++end;
      const std::string_view word = text.substr(at, end - at);
      for (const char* known : {"NaN", "Infinity", "None", "True", "False"}) {
        if (word == known) return known;
      }
      at = end;
    } else {
      ++at;
    }
  }
  return "";
}

}  // namespace

std::string advice_on_json(std::string_view text) {
  for (const auto& [begins, advice] : kFormats) {
    if (text.starts_with(begins)) return std::string("; ") + advice;
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  text.remove_prefix(first);
  const std::string_view word = foreign_word(text);
  if (word == "NaN" || word == "Infinity") return "; JSON has no " + std::string(word) + "; write null";
  if (!word.empty() && (text[0] == '{' || text[0] == '['))
    return "; it is in Python's notation (" + std::string(word) + "); write it with json.dumps()";
  const bool is_open = text.find_first_not_of(" \t\r\n", 1) == std::string_view::npos;
  if (text[0] == '[')
    return "; the file seems to be one JSON array, while .jsonl has an object per line; let its name end in .json";
  if (text[0] == '{' && is_open) return "; the object goes on in the next line, while .jsonl has an object per line";
  return "";
}

}  // namespace trireme::chat
