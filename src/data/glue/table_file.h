#pragma once
// A csv or json file of short texts, as a table.

#include <cstddef>
#include <string>
#include <vector>

namespace trireme {

/// Of a row of a table; of its text a model takes some thousand bytes.
inline constexpr size_t kMostRowBytes = size_t{4} << 20;
inline constexpr size_t kMostColumns = 1024;

struct TextTable {
  std::string path;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< a value per column; numbers as the file writes them
  /// Per column: every value is a number.
  std::vector<char> numeric;
};

/// .csv: RFC 4180, the first record names the columns. .json, .jsonl: an object per line, or an array of objects, or an
/// object whose member "data" is one; every object has the members of the first. Throws Error::io, Error::usage for
/// another ending, Error::data with file and row.
TextTable read_text_table(const std::string& path);

}  // namespace trireme
