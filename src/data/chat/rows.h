#pragma once
// The rows of a data file as JSON objects.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace trireme::chat {

/// Longest line of a jsonl file.
inline constexpr size_t kMostLineBytes = size_t{64} << 20;

struct RowHandlers {
  /// Whether a row is to be read: the others are skipped, in jsonl without parsing them. Empty: every row.
  std::function<bool(uint64_t row)> wants = {};
  /// `row`: from 1; in jsonl the line's number. Returns false to stop.
  std::function<bool(uint64_t row, const Json& object)> row;
  /// For a line that is not a JSON object. Returns false to stop.
  std::function<bool(uint64_t row, const std::string& reason)> fault;
};

/// .jsonl: an object per line. .json: the same, or an array of objects. Both also with .gz or .zst. .csv, .tsv: the
/// header names the members, whose values are texts. .parquet: columns of texts, numbers, truth values, dates and times
/// (as texts), and lists and structures of them; a warning names the others, which are left out. Throws Error::usage
/// for another ending, Error::io, Error::data.
void read_rows(const std::string& path, const RowHandlers& handlers);
/// Whether read_rows() reads files of this name.
bool is_row_file(std::string_view name);

// What a text that is not JSON seems to be.

/// What helps where `text`, a line or a value, could not be read as JSON: "; ..."; empty: nothing known.
std::string advice_on_json(std::string_view text);

}  // namespace trireme::chat
