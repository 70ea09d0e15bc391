// trireme report RUN: writes one HTML page from the logs of a run.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "report/html.h"

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

}  // namespace

int run_report(std::vector<std::string> arguments) {
  Flags app("trireme report", "Writes one self-contained HTML page about a run: curves, facts and samples.");
  std::string run, output, samples;
  app.add("RUN", run, "run folder").required();
  app.add("--output", output, "page to write (default: RUN/report.html)");
  app.add("--samples", samples, "jsonl file of samples to show (default: RUN/samples.jsonl if it exists)");
  if (const auto code = app.parse(std::move(arguments))) return *code;
  require(fs::is_directory(run), ErrorKind::io, "{} is not a run folder: the folder does not exist", run);
  const fs::path folder = fs::path(run), log_file = folder / "metrics.jsonl";
  require(fs::exists(log_file), ErrorKind::io,
          "{} has no metrics.jsonl: it is not a run folder, or was trained with --log.jsonl false", run);

  HtmlReport report;
  report.log = read_run_log(log_file.string());
  report.title = fs::canonical(folder).filename().string();
  report.more_facts = status_facts(folder / "status.json");
  if (samples.empty() && fs::exists(folder / "samples.jsonl")) samples = (folder / "samples.jsonl").string();
  if (!samples.empty())
    report.samples = read_samples(samples, report.log.steps.empty() ? 0 : report.log.steps.back().step);
  if (output.empty()) output = (folder / "report.html").string();
  write_text(output, render_html(report));
  fmt::print("wrote {}\n", output);
  return 0;
}

}  // namespace trireme
