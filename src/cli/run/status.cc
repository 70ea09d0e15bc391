// trireme status RUN: shows the state of the job of a run folder, or how it ended.

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "checkpoint/snapshot/local_disk.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/run/contact.h"
#include "cli/run/status.h"
#include "report/console.h"
#include "report/run_log.h"

namespace trireme {
namespace {

constexpr double kAnswerSeconds = 5;

/// The "status" member of the answer; null without an answer.
Json answer_of(StatusClient& call) {
  const auto line = call.next(kAnswerSeconds);
  return line ? parse_json(*line, "the job's answer").value("status", Json()) : Json();
}

void row(const char* name, const std::string& value) { fmt::print("{:<10}  {}\n", name, printable(value)); }

std::string place_text(const ControlPlace& place) { return fmt::format("process {} on {}", place.pid, place.host); }

void show_job(const Json& job, const ControlPlace& place) {
  const auto since = std::chrono::system_clock::from_time_t(job.value("since", std::time_t{0}));
  const double seconds = std::chrono::duration<double>(std::chrono::system_clock::now() - since).count();
  row("job", fmt::format("{}, rank 0 is {}, since {:%Y-%m-%d %H:%M:%S} ({})", count_text(job.value("ranks", 0), "rank"),
                         place_text(place), fmt::localtime(std::chrono::system_clock::to_time_t(since)),
                         duration_text(seconds)));
}

/// The newest evaluation in the run's records.
std::optional<EvaluationMetrics> newest_evaluation(const std::string& run) {
  try {
    const RunLog log = read_run_log(run + "/metrics.jsonl");
    if (!log.evaluations.empty()) return log.evaluations.back();
  } catch (const Error&) {  // no records, or none yet
  }
  return std::nullopt;
}

/// The newest step in the run's records; -1: none.
int64_t newest_record(const std::string& run) {
  try {
    const RunLog log = read_run_log(run + "/metrics.jsonl");
    if (!log.attempts.empty()) return log.attempts.back().last_step;
  } catch (const Error&) {  // as above
  }
  return -1;
}

Json json_of(const EvaluationMetrics& evaluation) {
  Json out{{"step", evaluation.step}};
  if (evaluation.epoch) out["epoch"] = *evaluation.epoch;
  if (evaluation.validation_loss) out["loss"] = *evaluation.validation_loss;
  for (const auto& [name, value] : evaluation.values) out[name] = value;
  return out;
}

}  // namespace

int run_status(CommandLine line) {
  Flags app(std::move(line), "trireme status",
            "Shows the state of the job of a run folder, or how it ended; lists all runs of a folder.");
  app.set_footer(
      "Of several folders, or one with runs below it, each run gets a line with its state (as its files say), steps, "
      "best validation loss and node-hours. The exit code is 0 if the state is known, whatever it is; --json is for "
      "programs.");
  std::vector<std::string> folders;
  std::string page, token;
  bool json = false;
  app.add("RUN", folders, "run folder, or folders with runs below them").required();
  app.add_switch("--json", json, "one line of JSON: state and everything else that is known");
  app.add("--page", page, "PORT or ADDRESS:PORT: shows the run's curves there in a browser until Ctrl-C");
  app.add("--token", token, "with --page: file whose first line readers must send (?token=TOKEN)");
  if (const auto code = app.parse()) return *code;
  const std::string run = folders[0];
  require(page.empty() || folders.size() == 1, ErrorKind::usage, "--page shows one run; found {} folders",
          folders.size());
  if (!page.empty()) return serve_page(run, page, token);
  require(token.empty(), ErrorKind::usage, "--token {} has no effect without --page", token);

  if (const auto listed = list_runs(folders, json)) return *listed;
  RunContact contact(run);
  const auto to_launch = contact.ask_launch("status");
  const Json launch = to_launch ? answer_of(*to_launch) : Json();
  const auto to_job = contact.ask_job("status");
  const Json job = to_job ? answer_of(*to_job) : Json();
  const bool runs = job.is_object();
  const bool told = runs || launch.is_object() || contact.life() != RunContact::Life::unknown;
  require(told, ErrorKind::io, "{}", contact.absence());

  if (json) {
    Json out{{"run", run}, {"state", runs ? "running" : launch.is_object() ? "waiting" : "ended"}};
    if (runs) out["job"] = job;
    if (launch.is_object()) out["launch"] = launch;
    if (!runs && contact.status()) {
      const RunStatus& end = *contact.status();
      const RunState state = end.state == RunState::running ? RunState::killed : end.state;
      out["end"] = {{"state", name_of(state)}, {"code", end.code}, {"step", end.step}, {"message", end.message}};
    }
    out["snapshot"] = newest_snapshot(run);
    if (const auto evaluation = newest_evaluation(run)) out["evaluation"] = json_of(*evaluation);
    if (const auto note = read_local_note(run))
      out["local"] = {{"folder", note->folder}, {"step", note->step}, {"copied", note->copied}};
    fmt::print("{}\n", dump_json(out));
    return 0;
  }
  row("run", run);
  if (runs) {
    row("state", "running: " + job.value("doing", ""));
    show_job(job, contact.control()->job);
  } else {
    row("state", launch.is_object() ? "no rank answers" : contact.absence());
  }
  if (launch.is_object()) {
    row("launch", fmt::format("{}, {}", place_text(*contact.control()->launch), launch.value("doing", "")));
  }
  if (const int64_t recorded = newest_record(run); !runs && contact.status() && recorded > contact.status()->step)
    row("records", fmt::format("up to step {}", recorded));
  row("snapshot", newest_snapshot(run));
  if (const auto evaluation = newest_evaluation(run))
    row("evaluation", evaluation_line(*evaluation).substr(std::string_view("evaluation ").size()));
  if (const auto local = local_snapshot(run)) row("local", *local);
  if (runs || launch.is_object()) row("last line", (runs ? job : launch).value("last_line", ""));
  return 0;
}

}  // namespace trireme
