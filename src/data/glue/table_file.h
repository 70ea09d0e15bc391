#pragma once
// A csv or json file of short texts, as a table.

#include <cstddef>
#include <string>
#include <vector>

#include "data/prepare/encoded_source.h"

namespace trireme {

/// Of a row of a table; of its text a model takes some thousand bytes.
inline constexpr size_t kMostRowBytes = size_t{4} << 20;
inline constexpr size_t kMostColumns = 1024;

struct TextTable {
  std::string path;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< a value per column; numbers as the file writes them
  /// Per column: every value is a number (of json: is written as one).
  std::vector<char> numeric;
  /// Per column: some value is text, and not the text of a number.
  std::vector<char> text;
  /// Per column, of json: the first row, from 1 on, where it is missing or neither text nor number; 0: none.
  std::vector<size_t> unusable;
};

/// .csv: RFC 4180, the first record names the columns; `separator`: of its fields, 0: a comma, in .tsv a tab. .tsv: a
/// quote is text but where it closes at the end of its field. .json, .jsonl: an object per line, or an array of
/// objects, or an object whose member "data" is one; the columns are the members of the first. Throws Error::io,
/// Error::usage for another ending, Error::data with file and row, also where fields seem to be separated by something
/// else. encoding: of the file, as prepare takes it.
TextTable read_text_table(const std::string& path, char separator = 0, const InputEncoding& encoding = {});

/// Whether a text is that of a number.
bool is_number_text(const std::string& text);

}  // namespace trireme
