// Logs of nccl-tests and rccl-tests, and of our own table.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <numeric>
#include <span>

#include "base/count.h"
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

/// The words before a line's own, without those that are a time: who printed it. Of launch, mpirun, srun, kubectl and
/// others: "h1[0]", "[1,0]<stdout>:", "0:", "2026-03-01T10:11:12.123Z".
std::string printer_of(std::string_view prefix) {
  const auto is_time = [](std::string_view word) {
    const auto of = [&](std::string_view some) {
      return std::ranges::count_if(word, [&](char c) { return some.find(c) != std::string_view::npos; });
    };
    const auto digits = of("0123456789"), marks = of(":-"), points = of(".");
    const bool only = digits + marks + points + of("TZ[](),+") == std::ssize(word);
    const bool ends = word.ends_with(':');  // "0:", srun's rank
    return only && !ends && (marks > 0 || points == 1) && digits > marks + points;
  };
  std::string printer;
  for (const std::string_view word : split(prefix)) {
    if (!is_time(word)) printer += fmt::format("{} ", word);
  }
  return printer;
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
  if (std::isalpha(static_cast<unsigned char>(fields[2][0])) == 0) return std::nullopt;
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

bool same_measurement(const Row& a, const Row& b) { return a.bytes == b.bytes && a.type == b.type && a.op == b.op; }

class Reader {
 public:
  explicit Reader(const std::string& source) : source_(source) {}

  void take(std::string_view line) {
    ++number_;
    for (size_t at = line.find('#'); at != std::string_view::npos; at = line.find('#', at + 1)) {
      if (take_comment(line.substr(0, at), line.substr(at + 1))) return;
    }
    if (printers_.empty()) return;
    const Fields fields = split(line);
    for (size_t first = 0; first + kFixedColumns < fields.size(); ++first) {
      if (!is_number(fields[first])) continue;
      Printer& printer =
          printer_named(printer_of(line.substr(0, static_cast<size_t>(fields[first].data() - line.data()))));
      const auto row = read_row(std::span(fields).subspan(first), printer.layout);
      if (row) return add(printer, *row);
      if (first == printer.words) tables_[printer.tables.back()].skipped_lines.push_back(number_);
    }
  }

  std::vector<Table> finish() {
    std::erase_if(tables_, [](const Table& table) { return table.rows.empty(); });
    require(!tables_.empty(), ErrorKind::data,
            "{}: has no table of nccl-tests or rccl-tests: neither a line \"# size count type ... time algbw busbw\" "
            "with rows below it, nor their JSON or CSV",
            source_);
    return std::move(tables_);
  }

 private:
  /// Who prints the lines with the same words before them: one rank, or several that print in turn.
  struct Printer {
    std::string name;
    size_t words = 0;  ///< before its header
    Layout layout;
    std::vector<size_t> tables;  ///< that are filled at the same time
  };

  /// Else the last one that began a table.
  Printer& printer_named(const std::string& name) {
    const auto found = std::ranges::find(printers_, name, &Printer::name);
    return found != printers_.end() ? *found : printers_.back();
  }

  /// To the first table that has no such row; a run may measure a size again.
  void add(const Printer& printer, const Row& row) {
    const auto lacks = [&](size_t table) {
      return std::ranges::none_of(tables_[table].rows, [&](const Row& own) { return same_measurement(own, row); });
    };
    const auto place = std::ranges::find_if(printer.tables, lacks);
    tables_[place != printer.tables.end() ? *place : printer.tables.back()].rows.push_back(row);
  }

  void begin_table(const std::string& name, size_t words, Layout layout) {
    layout.in_place_only = in_place_only_;
    tables_.push_back({source_, collective_, {}, std::nullopt, {}, 0});
    const auto known = std::ranges::find(printers_, name, &Printer::name);
    Printer printer{name, words, std::move(layout), {tables_.size() - 1}};
    if (known != printers_.end()) {
      const std::vector<size_t>& before = known->tables;
      if (std::ranges::all_of(before, [&](size_t table) { return tables_[table].rows.empty(); }))
        printer.tables.insert(printer.tables.begin(), before.begin(), before.end());
      printers_.erase(known);
    }
    printers_.push_back(std::move(printer));
  }

  /// False: nothing that is known.
  bool take_comment(std::string_view prefix, std::string_view line) {
    const std::string printer = printer_of(prefix);
    const Fields fields = split(line);
    if (auto layout = read_header(fields)) {
      begin_table(printer, split(prefix).size(), std::move(*layout));
    } else if (line.find("in-place") != std::string_view::npos) {
      in_place_only_ = line.find("out-of-place") == std::string_view::npos;
    } else if (const size_t at = line.find("Collective test starting:"); at != std::string_view::npos) {
      const Fields words = split(line.substr(at + 25));
      collective_ = words.empty() ? "" : std::string(words[0]);
      if (collective_.ends_with("_perf")) collective_.resize(collective_.size() - 5);
    } else if (!printers_.empty() && line.find("Avg bus bandwidth") != std::string_view::npos) {
      Table& table = unfinished(printer);
      double value = 0;
      for (const std::string_view field : fields) {
        if (read_number(field, value)) table.average_bus_bandwidth = value;
      }
    } else if (!printers_.empty() && line.find("Out of bounds values") != std::string_view::npos) {
      for (const std::string_view field : fields) {
        int64_t value = 0;
        if (read_number(field, value) && value > 0) unfinished(printer).out_of_bounds = value;
      }
    } else {
      return false;
    }
    return true;
  }

  /// The first table of the printer without its last line.
  Table& unfinished(const std::string& name) {
    const std::vector<size_t>& own = printer_named(name).tables;
    const auto place = std::ranges::find_if(own, [&](size_t table) { return !tables_[table].average_bus_bandwidth; });
    return tables_[place != own.end() ? *place : own.back()];
  }

  std::string source_, collective_;
  bool in_place_only_ = false;
  std::vector<Table> tables_;
  std::vector<Printer> printers_;  ///< in the order of their last tables
  int number_ = 0;
};

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
    if (const int64_t wrong = wrong_results(table); wrong > 0)
      text += fmt::format("; WRONG RESULTS: {}", count_text(wrong, "value"));
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
