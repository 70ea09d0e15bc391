#include "data/chat/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "data/chat/not_json.h"
#include "data/glue/table_file.h"
#include "data/parquet/nested.h"
#include "data/prepare/byte_source.h"
#include "text/chat/python_text.h"
#include "text/text_encoding.h"

namespace trireme::chat {
namespace {

constexpr size_t kMostArrayBytes = size_t{1} << 30;

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

void read_json_lines(const std::string& path, const RowHandlers& handlers) {
  Lines lines(path);
  for (std::string_view line; lines.next(line);) {
    if (is_blank(line) || !wants(handlers, lines.number())) continue;
    std::string reason;
    Json object;
    try {
      object = parse_json(line, "the line");
    } catch (const Error& error) {
      reason = error.what() + advice_on_json(line);
    }
    const bool on = reason.empty()
                        ? give(handlers, lines.number(), object, object.is_array() ? advice_on_json(line) : "")
                        : handlers.fault(lines.number(), reason);
    if (!on) return;
  }
}

/// Whether a .json file is an array; else it is read as lines.
bool is_array(const std::string& path) {
  Lines lines(path);
  for (std::string_view line; lines.next(line);) {
    const size_t first = line.find_first_not_of(" \t\r");
    if (first != std::string_view::npos) return line[first] == '[';
  }
  return false;
}

void read_array(const std::string& path, const RowHandlers& handlers) {
  const auto source = open_source(path);
  std::string text;
  for (size_t size = 1; size > 0;) {
    constexpr size_t kBlock = size_t{1} << 20;
    const size_t before = text.size();
    require(before <= kMostArrayBytes, ErrorKind::data, "{}: more than {} bytes, the limit of a JSON array; use jsonl",
            path, kMostArrayBytes);
    text.resize(before + kBlock);
    size = source->read(text.data() + before, kBlock);
    text.resize(before + size);
  }
  uint64_t row = 0;
  for (const Json& object : parse_json(text, path)) {
    if (wants(handlers, ++row) && !give(handlers, row, object)) return;
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

bool is_supported(ParquetType type) { return type != ParquetType::int96 && type != ParquetType::fixed; }

/// Columns of a Parquet file, row by row.
class ParquetRows {
 public:
  explicit ParquetRows(const std::string& path) : file_(path) {
    for (const ParquetColumnFacts& facts : file_.footer.columns) {
      if (!facts.flat || !is_supported(facts.type)) continue;
      names_.push_back(facts.name);
      columns_.emplace_back(file_, facts);
    }
    for (const ParquetNested& nested : file_.footer.nested) {
      const bool readable = std::ranges::all_of(nested.leaves, is_supported, &ParquetLeaf::type);
      if (!readable) continue;
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
      if (cell.text && first_invalid(*cell.text)) broken = names_[c];
      object[names_[c]] = cell.text ? Json(std::string(*cell.text)) : cell.number ? Json(*cell.number) : Json();
    }
    for (size_t c = 0; c < nested_.size(); ++c) {
      bool valid = true;
      nested_[c].next(object[nested_names_[c]], valid);
      if (!valid) broken = nested_names_[c];
    }
    return broken;
  }

 private:
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

void read_rows(const std::string& path, const RowHandlers& handlers) {
  std::string_view name = path;
  for (const std::string_view ending : {".gz", ".zst"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  const bool packed = name.size() < path.size();
  if (name.ends_with(".jsonl") || name.ends_with(".ndjson")) return read_json_lines(path, handlers);
  if (name.ends_with(".json")) return is_array(path) ? read_array(path, handlers) : read_json_lines(path, handlers);
  if (!packed && (name.ends_with(".csv") || name.ends_with(".tsv"))) return read_table(path, handlers);
  if (!packed && name.ends_with(".parquet")) return read_parquet(path, handlers);
  fail(ErrorKind::usage,
       "{}: unknown format; supported names end in .jsonl or .json (also with .gz or .zst), .csv, .tsv, .parquet",
       path);
}

}  // namespace trireme::chat
