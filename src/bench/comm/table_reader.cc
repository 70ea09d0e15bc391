// Logs of nccl-tests and rccl-tests, and of our own table.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <span>

#include "base/error.h"
#include "bench/comm/table.h"

namespace trireme::comm_bench {
namespace {

using Fields = std::vector<std::string_view>;

Fields split(std::string_view line) {
  Fields fields;
  for (size_t at = 0;;) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) return fields;
    const size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end;
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Without the tag of Open MPI's or srun's output.
std::string_view without_tag(std::string_view line) {
  if (line.starts_with('[')) {
    const size_t end = line.find(">:");
    if (end != std::string_view::npos && line.substr(0, end).find("]<std") != std::string_view::npos) {
      return line.substr(end + 2);
    }
  }
  const size_t colon = line.find(": ");
  return colon != std::string_view::npos && is_number(line.substr(0, colon)) ? line.substr(colon + 2) : line;
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size();
}

constexpr size_t kTimingColumns = 4;  // time algbw busbw wrong: the first of a mode
constexpr size_t kFixedColumns = 3;   // size count type

/// Layout of the rows below a header line.
struct Layout {
  size_t fixed = 0;           ///< columns before the first mode: size count type, then redop and root where it has them
  std::vector<size_t> modes;  ///< width of each: more than four if it lists the times of each iteration
  size_t stamp = 0;           ///< words of a time at the end
  bool in_place_only = false;
};

/// "size count type ... time algbw busbw ..."; once it was "bytes N type op ...".
std::optional<Layout> read_header(const Fields& fields) {
  if (fields.empty() || (fields[0] != "size" && fields[0] != "bytes")) return std::nullopt;
  Layout layout;
  for (const std::string_view field : fields) {
    if (field == "timestamp") {
      layout.stamp = 2;  // a day and a time
    } else if (field == "time" || field == "cputime") {
      layout.modes.push_back(1);
    } else if (layout.modes.empty()) {
      ++layout.fixed;
    } else {
      ++layout.modes.back();
    }
  }
  const bool whole = layout.fixed >= kFixedColumns && !layout.modes.empty() && layout.modes.size() <= 2 &&
                     std::ranges::all_of(layout.modes, [](size_t width) { return width >= kTimingColumns; });
  return whole ? std::optional(layout) : std::nullopt;
}

/// The four columns of one mode. False: they are not numbers.
bool read_timing(std::span<const std::string_view> fields, std::optional<Timing>& timing) {
  fields = fields.first(kTimingColumns);
  if (std::ranges::all_of(fields, [](std::string_view field) { return field == "N/A"; })) return true;
  Timing read;
  double wrong = 0;
  if (!read_number(fields[0], read.microseconds) || !read_number(fields[1], read.algorithm_bandwidth) ||
      !read_number(fields[2], read.bus_bandwidth)) {
    return false;
  }
  if (fields[3] != "N/A") {
    if (!read_number(fields[3], wrong)) return false;
    read.wrong = wrong;
  }
  timing = read;
  return true;
}

/// A log may leave redop and root blank, and all of the first mode.
std::optional<Row> read_row(std::span<const std::string_view> fields, const Layout& layout) {
  if (fields.size() < layout.stamp) return std::nullopt;
  fields = fields.first(fields.size() - layout.stamp);
  const auto fits = [&](size_t timings) {
    return fields.size() >= timings + kFixedColumns && fields.size() <= timings + layout.fixed;
  };
  const size_t last = layout.modes.back(), all = std::accumulate(layout.modes.begin(), layout.modes.end(), size_t{0});
  if (!fits(all) && !fits(last)) return std::nullopt;
  const size_t timings = fits(all) ? all : last;
  Row row;
  row.op = "none";
  if (!read_number(fields[0], row.bytes) || !read_number(fields[1], row.count)) return std::nullopt;
  row.type = fields[2];
  for (size_t i = kFixedColumns; i < fields.size() - timings; ++i) {
    if (!read_number(fields[i], row.root)) row.op = fields[i];
  }
  const auto of_last = fields.last(last);
  const bool one = layout.modes.size() == 1, both = timings == all && !one;
  if (both && !read_timing(fields.last(all), row.out_of_place)) return std::nullopt;
  std::optional<Timing>& timing = one && !layout.in_place_only ? row.out_of_place : row.in_place;
  if (!read_timing(of_last, timing)) return std::nullopt;
  return row;
}

class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  void take(std::string_view line) {
    ++number_;
    line = without_tag(line);
    if (line.starts_with('#')) return take_comment(line);
    const Fields fields = split(line);
    if (!layout_ || fields.empty() || !is_number(fields[0])) return;  // NCCL's own output, a prompt
    if (const auto row = read_row(fields, *layout_)) {
      tables_.back().rows.push_back(*row);
    } else {
      tables_.back().skipped_lines.push_back(number_);
    }
  }

  std::vector<Table> finish() {
    require(!tables_.empty() && !tables_.front().rows.empty(), ErrorKind::data,
            "{}: has no table of nccl-tests or rccl-tests: neither a line \"# size count type ... time algbw busbw\" "
            "with rows below it, nor their JSON or CSV",
            source_);
    return std::move(tables_);
  }

 private:
  void take_comment(std::string_view line) {
    line.remove_prefix(1);
    const Fields fields = split(line);
    if (auto layout = read_header(fields)) {
      layout_ = layout;
      layout_->in_place_only = in_place_only_;
      tables_.push_back({source_, collective_, {}, std::nullopt, {}});
    } else if (line.find("in-place") != std::string_view::npos) {
      in_place_only_ = line.find("out-of-place") == std::string_view::npos;
    } else if (const size_t at = line.find("Collective test starting:"); at != std::string_view::npos) {
      const Fields words = split(line.substr(at + 25));
      collective_ = words.empty() ? "" : std::string(words[0]);
      if (collective_.ends_with("_perf")) collective_.resize(collective_.size() - 5);
    } else if (line.starts_with(" Avg bus bandwidth") && !tables_.empty()) {
      double value = 0;
      for (const std::string_view field : fields) {
        if (read_number(field, value)) tables_.back().average_bus_bandwidth = value;
      }
    }
  }

  std::string source_, collective_;
  std::optional<Layout> layout_;
  bool in_place_only_ = false;
  std::vector<Table> tables_;
  int number_ = 0;
};

bool same_measurement(const Row& a, const Row& b) { return a.bytes == b.bytes && a.type == b.type && a.op == b.op; }

bool comparable(const Table& a, const Table& b) {
  if (!a.collective.empty() && !b.collective.empty() && a.collective != b.collective) return false;
  return std::ranges::any_of(a.rows, [&](const Row& row) {
    return std::ranges::any_of(b.rows, [&](const Row& other) { return same_measurement(row, other); });
  });
}

std::string cell(const Row* row, const Row& first) {
  if (row == nullptr || !(row->out_of_place || row->in_place))
    return fmt::format("  {:>9}  {:>8}  {:>6}", "-", "-", "-");
  const auto timing = [](const Row& r) { return r.out_of_place ? *r.out_of_place : r.in_place.value_or(Timing()); };
  const double base = timing(first).bus_bandwidth;
  return fmt::format("  {:>9.1f}  {:>8.2f}  {:>6}", timing(*row).microseconds, timing(*row).bus_bandwidth,
                     base > 0 ? fmt::format("{:.2f}", timing(*row).bus_bandwidth / base) : "-");
}

}  // namespace

std::vector<Table> parse_tables(std::string_view text, const std::string& source) {
  if (auto tables = parse_records(text, source); !tables.empty()) return tables;
  Reader reader(source);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    reader.take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.finish();
}

std::string side_by_side(const std::vector<Table>& all) {
  std::string text;
  std::vector<Table> tables;
  for (const Table& table : all) {
    if (tables.empty() || comparable(tables[0], table)) {
      tables.push_back(table);
    } else {
      text += fmt::format("# skipped: {}{}{}: none of its sizes, types and operations is in {}\n", table.source,
                          table.collective.empty() ? "" : ", ", table.collective, all[0].source);
    }
  }
  for (size_t i = 0; i < tables.size(); ++i) {
    const Table& table = tables[i];
    text += fmt::format("# [{}] {}{}{}", i, table.source, table.collective.empty() ? "" : ", ", table.collective);
    text += table.average_bus_bandwidth ? fmt::format(", average bus bandwidth {:g} GB/s", *table.average_bus_bandwidth)
                                        : "";
    for (const int line : table.skipped_lines) text += fmt::format("; line {} is incomplete and was skipped", line);
    text += "\n";
  }
  text += fmt::format("#{:>11}  {:>8}  {:>6}", "size", "type", "redop");
  for (size_t i = 0; i < tables.size(); ++i) {
    text += fmt::format("  {:>9}  {:>8}  {:>6}", fmt::format("[{}] us", i), "busbw", i == 0 ? "" : "ratio");
  }
  text += "\n";
  for (const Row& row : tables.empty() ? std::vector<Row>() : tables[0].rows) {
    text += fmt::format("{:>12}  {:>8}  {:>6}", row.bytes, row.type, row.op);
    for (const Table& table : tables) {
      const auto found = std::ranges::find_if(table.rows, [&](const Row& r) { return same_measurement(r, row); });
      text += cell(found == table.rows.end() ? nullptr : &*found, row);
    }
    text += "\n";
  }
  return text;
}

}  // namespace trireme::comm_bench
