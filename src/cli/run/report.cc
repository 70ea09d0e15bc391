// trireme report RUN...: writes one HTML page from the logs of a run, or one that compares several.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "checkpoint/run_folder/run_status.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "report/html.h"
#include "report/live/run_history.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

std::string plain_text(const Json& value) {
  return value.is_string() ? value.get<std::string>() : dump_valid_json(value);
}

/// The end of the run from status.json as one fact; empty fields are omitted.
RunFacts status_facts(const fs::path& file) {
  if (!fs::exists(file)) return {};
  std::string text;
  const Json status = read_json(file.string());
  for (const auto& [name, value] : status.items()) {
    const std::string said = plain_text(value);
    if (said.empty() || value.is_null() || said == "false") continue;
    if (name == "requeue") {
      if (status.value("code", 0) == 0) continue;
      text += fmt::format("{}to be queued again", text.empty() ? "" : ", ");
      continue;
    }
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, said);
  }
  return {{"status", text}};
}

/// An attempt that failed or was killed wrote no end into its records; the newest one's is in status.json.
void complete_attempt(const fs::path& folder, RunLog& log) {
  if (log.attempts.empty() || !log.attempts.back().state.empty() || !fs::exists(folder / "status.json")) return;
  const RunStatus status = read_status(folder.string());
  if (status.state == RunState::running) return;
  log.attempts.back().state =
      std::string(name_of(status.state)) + (status.message.empty() ? "" : ": " + status.message);
}

/// Lines {"context": ..., "text": ...} as `trireme sample --jsonl` writes them.
std::vector<SampleText> read_samples(const std::string& path, int64_t step) {
  std::vector<SampleText> samples;
  const std::string content = read_text(path, size_t{1} << 26);
  size_t line_number = 0;
  for (std::string_view rest = content; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++line_number;
    if (line.empty()) continue;
    const std::string where = fmt::format("{} line {}", path, line_number);
    const Json record = parse_json(line, where);
    require(record.is_object() && record.contains("text") && record["text"].is_string(), ErrorKind::data,
            "{}: not a sample: expected {{\"context\": ..., \"text\": ...}} as trireme sample --jsonl writes it",
            where);
    samples.push_back({step, record.value("context", ""), record["text"].get<std::string>()});
  }
  return samples;
}

/// The run's log. Throws Error::io for what is not the folder of a run.
RunLog read_log(const std::string& run) {
  require(fs::is_directory(run), ErrorKind::io, "{} is not a run folder: the folder does not exist", run);
  const fs::path file = fs::path(run) / "metrics.jsonl";
  require(fs::exists(file), ErrorKind::io,
          "{} has no metrics.jsonl: it is not a run folder, or was trained with --log.jsonl false", run);
  return read_run_log(file.string());
}

/// Files of samples to show, as flags name them; empty: those in the run folder, if they are there.
struct SampleFiles {
  std::string after, before;
  bool any() const { return !after.empty() || !before.empty(); }
};

void write_one(const std::string& run, const std::string& output, SampleFiles samples) {
  const fs::path folder = run;
  HtmlReport report;
  report.log = read_log(run);
  report.title = fs::canonical(folder).filename().string();
  report.more_facts = status_facts(folder / "status.json");
  complete_attempt(folder, report.log);
  const int64_t step = report.log.steps.empty() ? 0 : report.log.steps.back().step;
  const auto read = [&](std::string file, const char* usual, int64_t of_step) {
    if (file.empty() && fs::exists(folder / usual)) file = (folder / usual).string();
    return file.empty() ? std::vector<SampleText>() : read_samples(file, of_step);
  };
  report.samples = read(std::move(samples.after), "samples.jsonl", step);
  report.before = read(std::move(samples.before), "samples-before.jsonl", 0);
  const std::string page = output.empty() ? (folder / "report.html").string() : output;
  write_text(page, render_html(report));
  fmt::print("wrote {}\n", page);
}

/// The last parts of the runs' paths, the fewest with which all differ. Throws Error::usage if a run is given twice.
std::vector<std::string> short_names(const std::vector<std::string>& runs) {
  std::vector<fs::path> paths, rests;
  for (const std::string& run : runs) {
    paths.push_back(fs::canonical(run));
    require(std::ranges::count(paths, paths.back()) == 1, ErrorKind::usage, "{} is given twice", run);
  }
  rests = paths;
  std::vector<std::string> names(runs.size());
  for (bool again = true; again;) {
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string part = rests[i].filename().string();
      names[i] = names[i].empty() ? part : part + "/" + names[i];
      rests[i] = rests[i].parent_path();
    }
    again = std::ranges::any_of(names, [&](const auto& name) { return std::ranges::count(names, name) > 1; });
  }
  return names;
}

void write_comparison(const std::vector<std::string>& runs, const std::string& output) {
  require(runs.size() <= kMostCompared, ErrorKind::usage, "report compares at most {} runs, found {}", kMostCompared,
          runs.size());
  std::vector<ComparedRun> compared;
  for (const std::string& run : runs) {
    RunHistory history;  // a curve per run, about one point per pixel
    history.set_earlier(read_log(run));
    compared.push_back({"", history.log()});
  }
  const std::vector<std::string> names = short_names(runs);
  for (size_t i = 0; i < names.size(); ++i) compared[i].name = names[i];
  write_text(output, render_comparison(compared));
  fmt::print("wrote {}\n", output);
}

}  // namespace

int run_report(CommandLine line) {
  Flags app(std::move(line), "trireme report",
            "Writes one self-contained HTML page about a run: curves, facts and samples; for several runs, a page that "
            "compares them: curves over each other, results, and the options that differ.");
  std::vector<std::string> runs;
  std::string output;
  SampleFiles samples;
  app.add("RUN", runs, "run folders").required();
  app.add("--output", output, "page to write (default: RUN/report.html, for several runs comparison.html)");
  app.add("--samples", samples.after,
          "samples to show, as `trireme sample --jsonl` writes them (default: RUN/samples.jsonl if it exists); for one "
          "run only");
  app.add(
      "--samples-before", samples.before,
      "the same prompts by the model before the training, shown above them (default: RUN/samples-before.jsonl if it "
      "exists)");
  if (const auto code = app.parse()) return *code;
  require(runs.size() == 1 || !samples.any(), ErrorKind::usage, "--samples belongs to one run, found {} runs",
          runs.size());
  if (runs.size() == 1) {
    write_one(runs[0], output, samples);
  } else {
    write_comparison(runs, output.empty() ? "comparison.html" : output);
  }
  return 0;
}

}  // namespace trireme
