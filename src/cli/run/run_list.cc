// trireme status FOLDER...: all runs below the folders, a line each.

#include "cli/run/status.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "checkpoint/run_folder/run_control.h"
#include "checkpoint/run_folder/run_status.h"
#include "report/run_log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr int kDepth = 3;              // below a folder: project/experiment/run
constexpr size_t kMostRuns = 100'000;  // an accident, such as /

bool is_run(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(status_path(folder), ignored) || fs::exists(control_path(folder), ignored);
}

void find_runs(const std::string& folder, int depth, std::vector<std::string>& runs) {
  if (is_run(folder)) {
    runs.push_back(folder);
    return;
  }
  if (depth == 0 || runs.size() >= kMostRuns) return;
  std::vector<std::string> below;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory(error) && !at->is_symlink(error)) below.push_back(at->path().string());
  }
  std::ranges::sort(below);
  for (const std::string& one : below) find_runs(one, depth - 1, runs);
}

std::optional<RunLog> log_of(const std::string& run) {
  try {
    return read_run_log(run + "/metrics.jsonl");
  } catch (const Error&) {  // no records, or none yet
    return std::nullopt;
  }
}

std::optional<double> node_hours(const std::string& run, const std::optional<RunLog>& log) {
  const std::vector<AttemptRecord> attempts = read_attempts(run);
  if (attempts.empty()) return std::nullopt;
  double seconds = 0;
  for (size_t i = 0; i < attempts.size(); ++i) {
    const double next = i + 1 < attempts.size() ? attempts[i + 1].time : std::numeric_limits<double>::infinity();
    double last = attempts[i].time;
    for (const AttemptLog& one : log ? log->attempts : std::vector<AttemptLog>()) {
      if (one.started >= attempts[i].time && one.started < next) last = std::max(last, one.ended);
    }
    seconds += (last - attempts[i].time) * attempts[i].hosts;
  }
  return seconds / 3600;
}

struct Row {
  std::string run, state;
  int64_t step = 0, steps = 0;
  std::optional<double> loss = {}, hours = {};
};

Row row_of(const std::string& run) {
  const std::optional<RunLog> log = log_of(run);
  Row row{.run = run, .state = "unknown", .hours = node_hours(run, log)};
  try {
    row.state = name_of(read_status(run).state);
  } catch (const Error&) {  // not there yet, or of another version
  }
  if (!log) return row;
  if (!log->attempts.empty()) row.step = log->attempts.back().last_step;
  row.steps = log->total_steps;
  if (const EvaluationMetrics* best = best_evaluation(*log)) row.loss = best->validation_loss;
  return row;
}

Json to_json(const Row& row) {
  Json out{{"run", row.run}, {"state", row.state}, {"step", row.step}, {"steps", row.steps}};
  out["best_validation_loss"] = row.loss ? Json(*row.loss) : Json();
  out["node_hours"] = row.hours ? Json(*row.hours) : Json();
  return out;
}

}  // namespace

std::optional<double> node_hours(const std::string& run) { return node_hours(run, log_of(run)); }

std::optional<int> list_runs(const std::vector<std::string>& folders, bool json) {
  if (folders.size() == 1 && is_run(folders[0])) return std::nullopt;
  std::vector<std::string> runs;
  for (const std::string& folder : folders) find_runs(folder, kDepth, runs);
  require(folders.size() == 1 || !runs.empty(), ErrorKind::io, "found no run folder in {} and {}", folders[0],
          count_text(folders.size() - 1, "other folder"));
  if (runs.empty()) return std::nullopt;
  double hours = 0;
  size_t width = 3, unknown = 0;
  for (const std::string& run : runs) width = std::max(width, printable(run).size());
  if (!json)
    fmt::print("{:<{}}  {:<9}  {:>15}  {:>9}  {:>10}\n", "run", width, "state", "step", "best loss", "node-hours");
  for (const std::string& run : runs) {
    const Row row = row_of(run);
    hours += row.hours.value_or(0);
    unknown += row.hours ? 0 : 1;
    if (json) {
      fmt::print("{}\n", dump_json(to_json(row)));
    } else {
      fmt::print("{:<{}}  {:<9}  {:>15}  {:>9}  {:>10}\n", printable(run), width, row.state,
                 fmt::format("{}/{}", row.step, row.steps), row.loss ? fmt::format("{:.4f}", *row.loss) : "-",
                 row.hours ? fmt::format("{:.2f}", *row.hours) : "-");
    }
  }
  if (json) return 0;
  fmt::print("{}, {:.2f} node-hours{}\n", count_text(runs.size(), "run"), hours,
             unknown > 0 ? fmt::format("; unknown for {}", count_text(unknown, "run")) : "");
  return 0;
}

}  // namespace trireme
