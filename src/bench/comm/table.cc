#include "bench/comm/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trireme::comm_bench {
namespace {

/// Seven columns: all digits that fit, like nccl-tests.
std::string time_text(double microseconds) {
  return fmt::format("{:>7.{}f}", microseconds, microseconds < 100 ? 2 : microseconds < 10000 ? 1 : 0);
}

/// Two decimals as nccl-tests has them, and three digits that count on slow networks: 100 Mbit/s are 0.0125 GB/s.
std::string rate_text(double rate) {
  return fmt::format("{:.{}f}", rate, rate <= 0 || rate >= 1 ? 2 : rate >= 0.1 ? 3 : rate >= 0.01 ? 4 : 5);
}

std::string timing_text(const std::optional<Timing>& timing) {
  if (!timing) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
  return fmt::format("  {}  {:>6}  {:>6}  {:>5}", time_text(timing->microseconds),
                     rate_text(timing->algorithm_bandwidth), rate_text(timing->bus_bandwidth),
                     timing->wrong ? fmt::format("{:g}", *timing->wrong) : "N/A");
}

Json timing_json(const std::optional<Timing>& timing) {
  if (!timing) return nullptr;
  Json json{{"time", timing->microseconds},
            {"alg_bw", timing->algorithm_bandwidth},
            {"bus_bw", timing->bus_bandwidth},
            {"nwrong", nullptr}};
  if (timing->wrong) json["nwrong"] = static_cast<int64_t>(*timing->wrong);
  return json;
}

template <class Do>
void for_each_timing(const std::vector<Row>& rows, Do action) {
  for (const Row& row : rows) {
    if (row.out_of_place) action(*row.out_of_place);
    if (row.in_place) action(*row.in_place);
  }
}

}  // namespace

std::string table_header() {
  const std::string modes = "     time   algbw   busbw  #wrong";
  return fmt::format(
      "#{:>70}{:>33}\n#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n#{:>11}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n",
      "out-of-place", "in-place", "size", "count", "type", "redop", "root", modes, modes, "(B)", "(elements)", "", "",
      "", "     (us)  (GB/s)  (GB/s)        ", "     (us)  (GB/s)  (GB/s)");
}

std::string to_text(const Row& row) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", row.bytes, row.count, row.type, row.op, row.root,
                     timing_text(row.out_of_place), timing_text(row.in_place));
}

double average_bus_bandwidth(const std::vector<Row>& rows) {
  double sum = 0, count = 0;
  for_each_timing(rows, [&](const Timing& timing) {
    sum += timing.bus_bandwidth;
    ++count;
  });
  return count > 0 ? sum / count : 0;
}

int64_t total_wrong(const std::vector<Row>& rows) {
  int64_t wrong = 0;
  for_each_timing(rows, [&](const Timing& timing) { wrong += static_cast<int64_t>(timing.wrong.value_or(0)); });
  return wrong;
}

int64_t wrong_results(const Table& table) { return std::max(total_wrong(table.rows), table.out_of_bounds); }

Json to_json(const Row& row) {
  return {{"size", row.bytes},
          {"count", row.count},
          {"type", row.type},
          {"redop", row.op},
          {"root", row.root},
          {"out_of_place", timing_json(row.out_of_place)},
          {"in_place", timing_json(row.in_place)}};
}

}  // namespace trireme::comm_bench
