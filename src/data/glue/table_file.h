#pragma once
// Reads a csv or json file of short texts as a table.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/prepare/byte_source.h"

namespace trireme {

/// Limit of a row; a model uses some thousand bytes of its text.
inline constexpr size_t kMostRowBytes = size_t{4} << 20;
inline constexpr size_t kMostColumns = 1024;

struct TextTable {
  std::string path;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< one value per column; numbers as written in the file
  /// Per column: every value is a number (in json: without quotes).
  std::vector<char> numeric;
  /// Per column: at least one value is text other than a number, amount, date, true or false.
  std::vector<char> text;
  /// Per column, in json: the first row, counted from 1, where it is missing or neither text nor number; 0: none.
  std::vector<size_t> unusable;
  /// In a csv of one column: the first record that is a blank line, which is skipped; 0: none.
  int64_t blank = 0;
};

/// .csv: RFC 4180, the first record names the columns; `separator` of fields: 0 is a comma, in .tsv a tab. .tsv: a
/// quote is text unless it closes at the end of its field. .json, .jsonl: an object per line, or an array of objects,
/// or an object whose member "data" is an array; the columns are the members of the first object. Throws Error::io,
/// Error::usage for another ending, Error::data with file and row, also if fields seem to have another separator.
/// encoding: of the file, as for prepare. separator_advice: what helps against another separator; empty: the option
/// --csv-separator.
TextTable read_text_table(const std::string& path, char separator = 0, const InputEncoding& encoding = {},
                          std::string_view separator_advice = {});

/// Whether a text is a number.
bool is_number_text(const std::string& text);

/// Whether a text is a number, an amount ("1,000", "12%", "$3.50"), a date, true or false.
bool is_value_text(const std::string& text);

}  // namespace trireme
