// Measurements in JSON and CSV: our -J and nccl-tests' (a document with "results"), rccl-tests' -Z json and csv (a
// record per size and mode).

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/text.h"
#include "bench/comm/table.h"

namespace trireme::comm_bench {
namespace {

/// A number, or a number as text: nccl-tests writes some in this form.
double number_in(const Json& record, const char* name, double absent) {
  const Json value = record.value(name, Json());
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return absent;
  const std::string text = value.get<std::string>();
  double number = absent;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string text_in(const Json& record, const char* name, const std::string& absent) {
  const Json value = record.value(name, Json());
  return value.is_string() ? value.get<std::string>() : absent;
}

/// "AllReduce", "all_reduce_perf": all_reduce.
std::string collective_called(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == ' '; });
  name = lower_case(name);
  if (name.ends_with("perf")) name.resize(name.size() - 4);
  for (const char* known : {"all_reduce", "all_gather", "reduce_scatter"}) {
    std::string joined = known;
    std::erase(joined, '_');
    if (name == joined) return known;
  }
  return name;
}

class Records {
 public:
  explicit Records(const std::string& source) : source_(source) {}

  /// {"size", "count", "type", "redop", "root", "out_of_place", "in_place"}
  void take_row(const Json& record, const std::string& collective) {
    Row row = row_of(record);
    row.out_of_place = timing_of(record.value("out_of_place", Json()), "alg_bw", "bus_bw", "nwrong");
    row.in_place = timing_of(record.value("in_place", Json()), "alg_bw", "bus_bw", "nwrong");
    if (!row.out_of_place && !row.in_place) return;
    table(text_in(record, "collective", collective)).rows.push_back(row);
  }

  /// {"name", "size", "type", "redop", "inPlace", "time", "algBw", "busBw", "wrong"}: one mode of one size.
  void take_mode(const Json& record) {
    const auto timing = timing_of(record, "algBw", "busBw", "wrong");
    if (!timing) return;
    std::vector<Row>& rows = table(collective_called(text_in(record, "name", ""))).rows;
    const Row row = row_of(record);
    const bool in_place = number_in(record, "inPlace", 0) != 0;
    const bool other_half = !rows.empty() && rows.back().bytes == row.bytes && rows.back().type == row.type &&
                            rows.back().op == row.op && !(in_place ? rows.back().in_place : rows.back().out_of_place);
    if (!other_half) rows.push_back(row);
    (in_place ? rows.back().in_place : rows.back().out_of_place) = timing;
  }

  std::vector<Table> finish(std::optional<double> average) {
    const bool any = std::ranges::any_of(tables_, [](const Table& table) { return !table.rows.empty(); });
    require(any, ErrorKind::data, "{}: has no measurements of nccl-tests, rccl-tests or bench comm -J", source_);
    if (tables_.size() == 1) tables_[0].average_bus_bandwidth = average;
    return std::move(tables_);
  }

 private:
  static Row row_of(const Json& record) {
    Row row;
    row.bytes = static_cast<int64_t>(number_in(record, "size", 0));
    row.count = static_cast<int64_t>(number_in(record, "count", 0));
    row.type = text_in(record, "type", "");
    row.op = text_in(record, "redop", "none");
    row.root = static_cast<int>(number_in(record, "root", -1));
    return row;
  }

  static std::optional<Timing> timing_of(const Json& record, const char* algorithm, const char* bus,
                                         const char* wrong) {
    if (!record.is_object() || !record.contains(bus)) return std::nullopt;
    Timing timing;
    timing.microseconds = number_in(record, record.contains("time") ? "time" : "cpu_time", 0);
    timing.algorithm_bandwidth = number_in(record, algorithm, 0);
    timing.bus_bandwidth = number_in(record, bus, 0);
    const double values = number_in(record, wrong, -1);
    if (values >= 0) timing.wrong = values;
    return timing;
  }

  Table& table(const std::string& collective) {
    const auto found = std::ranges::find(tables_, collective, &Table::collective);
    if (found != tables_.end()) return *found;
    tables_.push_back({source_, collective, {}, std::nullopt, {}});
    return tables_.back();
  }

  std::string source_;
  std::vector<Table> tables_;
};

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != '"' && c != '\r' && c != ' ') {
      cells.back() += c;
    }
  }
  return cells;
}

std::vector<Table> parse_csv(std::string_view text, const std::string& source) {
  Records records(source);
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string> cells = cells_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (std::ranges::find(cells, "busBw") != cells.end()) {
      names = cells;
    } else if (!names.empty() && cells.size() == names.size()) {
      Json record = Json::object();
      for (size_t i = 0; i < names.size(); ++i) record[names[i]] = cells[i];
      records.take_mode(record);
    }
  }
  return records.finish(std::nullopt);
}

std::vector<Table> parse_document(const Json& document, const std::string& source) {
  Records records(source);
  if (document.is_array()) {
    for (const Json& record : document) records.take_mode(record);
    return records.finish(std::nullopt);
  }
  const Json arguments = document.value("args", Json::array());
  const std::string command = arguments.empty() ? "" : arguments.at(0).get<std::string>();
  const std::string collective = collective_called(command.substr(command.rfind('/') + 1));
  for (const Json& record : document.value("results", Json::array())) records.take_row(record, collective);
  const double average = number_in(document.value("average_bus_bandwidth", Json::object()), "bandwidth", -1);
  return records.finish(average >= 0 ? std::optional(average) : std::nullopt);
}

}  // namespace

std::vector<Table> parse_records(std::string_view text, const std::string& source) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  const std::string_view first = text.substr(begin, text.find('\n', begin) - begin);
  if (first.find(',') != std::string_view::npos && first.find("busBw") != std::string_view::npos && first[0] != '[' &&
      first[0] != '{') {
    return parse_csv(text, source);
  }
  // "[1,0]<stdout>:" and a prompt's "[user@host]" are not JSON.
  if (text[begin] != '{' &&
      !(text[begin] == '[' && text.find_first_not_of(" \t\r\n", begin + 1) == text.find('{', begin + 1))) {
    return {};
  }
  try {
    return parse_document(parse_json(std::string(text), source), source);
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, "{}: not measurements of nccl-tests, rccl-tests or bench comm -J: {}", source, e.what());
  }
}

}  // namespace trireme::comm_bench
