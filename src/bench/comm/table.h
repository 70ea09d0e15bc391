#pragma once
// The table of nccl-tests: written for our measurements, read back from logs of any of its versions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace trireme::comm_bench {

/// One mode (out of place or in place) of one size.
struct Timing {
  double microseconds = 0;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  ///< 1e9 bytes per second
  std::optional<double> wrong;                        ///< none: not checked; logs of 2023 hold an error such as 5e-07
};

struct Row {
  int64_t bytes = 0, count = 0;
  std::string type, op;  ///< op "none" where nothing is reduced
  int root = -1;         ///< -1: no root
  std::optional<Timing> out_of_place, in_place;
};

/// Contents of a run or a log.
struct Table {
  std::string source;      ///< file, or "this run"
  std::string collective;  ///< "all_reduce"; empty if the log does not contain it
  std::vector<Row> rows;
  std::optional<double> average_bus_bandwidth;  ///< as the footer has it
  std::vector<int> skipped_lines;               ///< that begin like a row but are not rows
  int64_t out_of_bounds = 0;                    ///< sizes with wrong results, as the footer has it
};

std::string table_header();
std::string to_text(const Row& row);
/// Mean bus bandwidth over all rows and both modes; 0 without any.
double average_bus_bandwidth(const std::vector<Row>& rows);
int64_t total_wrong(const std::vector<Row>& rows);
/// Wrong values in the rows of a table, or what its footer counts; 0: all was right, or was not checked.
int64_t wrong_results(const Table& table);
Json to_json(const Row& row);

/// Logs, and the files of their and our -J and of rccl-tests' -Z json and csv. Columns are found by their header.
/// Whatever words are before the lines (tags of launch, mpirun and srun, times) say who printed them. A file may hold
/// the tables of several runs, one after the other or printed in turn. Throws Error::data naming the file if it has no
/// table.
std::vector<Table> parse_tables(std::string_view text, const std::string& source);

/// The tables of a file in JSON or CSV, one per collective; empty: it is neither. Throws Error::data naming the file if
/// it holds no measurements.
std::vector<Table> parse_records(std::string_view text, const std::string& source);

/// Several tables side by side: one line per size of the first, with time and bus bandwidth (out of place) of each and
/// its ratio to the first's. Sizes that a table lacks are "-".
std::string side_by_side(const std::vector<Table>& tables);

}  // namespace trireme::comm_bench
