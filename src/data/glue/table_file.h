#pragma once
// A csv or json file of short texts, as a table.

#include <string>
#include <vector>

namespace trireme {

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
