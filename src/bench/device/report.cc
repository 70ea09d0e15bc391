#include "bench/device/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/count.h"

namespace trireme::device_check {
namespace {

/// Names of the checks with this verdict; of several GPUs each with its rank.
std::vector<std::string> checks_with(const Report& report, Verdict verdict) {
  std::vector<std::string> names;
  for (const GpuReport& gpu : report.gpus)
    for (const Result& result : gpu.results)
      if (result.verdict == verdict)
        names.push_back(report.gpus.size() > 1 ? fmt::format("{} (rank {})", result.check, gpu.rank) : result.check);
  return names;
}

}  // namespace

std::string line_of(const Result& result) {
  return fmt::format("{:<12} {:<12} {}{}\n", result.check, name_of(result.verdict), result.text,
                     result.verdict == Verdict::not_checked ? "" : fmt::format(" ({:.1f} s)", result.seconds));
}

bool has_failed(const Report& report) { return !checks_with(report, Verdict::failed).empty(); }
bool has_checked(const Report& report) { return has_failed(report) || !checks_with(report, Verdict::ok).empty(); }

std::string verdict_line(const Report& report) {
  const std::vector<std::string> failed = checks_with(report, Verdict::failed),
                                 left = checks_with(report, Verdict::not_checked);
  const size_t good = checks_with(report, Verdict::ok).size();
  std::vector<std::string> parts;
  if (!failed.empty()) parts.push_back(fmt::format("failed: {}", fmt::join(failed, ", ")));
  if (failed.empty() && good > 0)
    parts.push_back(fmt::format("ok: {} of {}", count_text(good, "check"), count_text(report.gpus.size(), "GPU")));
  if (!left.empty()) parts.push_back(fmt::format("not checked: {}", fmt::join(left, ", ")));
  std::string line = fmt::format("{}", fmt::join(parts, "; "));
  if (report.facts.quick) line += "; a quick check: not the shapes of a model";
  if (!report.facts.only.empty()) line += fmt::format("; only {}", report.facts.only);
  return line;
}

std::string head_of(const Report& report, const GpuReport& gpu) {
  const Facts& f = report.facts;
  return fmt::format(
      "GPU          {}{}, on {}\nlibraries    {}\nbeside       {}, {}, kernels {}\nshapes       {}, {} x {} tokens, {} "
      "training steps\n",
      gpu.hardware, report.gpus.size() > 1 ? fmt::format(" of rank {}", gpu.rank) : "", gpu.host,
      gpu.libraries.empty() ? "none is known" : fmt::format("{}", fmt::join(gpu.libraries, ", ")), f.cpu,
      count_text(f.threads, "thread"), f.kernels, f.model, f.batch, f.sequence, f.steps);
}

std::string to_text(const Report& report) {
  std::string text = fmt::format("trireme device check, {}, {}\n", report.facts.program, report.facts.date);
  for (const GpuReport& gpu : report.gpus) {
    text += head_of(report, gpu);
    for (const Result& result : gpu.results) text += line_of(result);
  }
  return text + fmt::format("verdict      {}\n", verdict_line(report));
}

Json to_json(const GpuReport& gpu) {
  Json results = Json::array();
  for (const Result& result : gpu.results) {
    Json figures = Json::object();
    for (const Figure& figure : result.figures) figures[figure.name] = figure.value;
    results.push_back({{"check", result.check},
                       {"result", name_of(result.verdict)},
                       {"text", result.text},
                       {"figures", std::move(figures)},
                       {"seconds", result.seconds}});
  }
  return {{"rank", gpu.rank},   {"host", gpu.host},           {"gpu", gpu.hardware},
          {"place", gpu.place}, {"libraries", gpu.libraries}, {"checks", std::move(results)}};
}

GpuReport gpu_report_from_json(const Json& json) {
  GpuReport gpu{.rank = json.at("rank"),
                .host = json.at("host"),
                .hardware = json.at("gpu"),
                .place = json.at("place"),
                .libraries = json.at("libraries")};
  for (const Json& one : json.at("checks")) {
    Result& result = gpu.results.emplace_back();
    result.check = one.at("check");
    result.verdict = value_named<Verdict>(one.at("result").get<std::string>()).value();
    result.text = one.at("text");
    result.seconds = one.at("seconds");
    for (const auto& [name, value] : one.at("figures").items())
      result.figures.push_back({name, value.is_null() ? 0 : value.get<double>()});
  }
  return gpu;
}

Json to_json(const Report& report) {
  const Facts& f = report.facts;
  Json gpus = Json::array();
  for (const GpuReport& gpu : report.gpus) gpus.push_back(to_json(gpu));
  const char* const verdict = has_failed(report) ? "failed" : has_checked(report) ? "ok" : "not checked";
  return {{"verdict", verdict},
          {"verdict_line", verdict_line(report)},
          {"program", f.program},
          {"date", f.date},
          {"cpu", f.cpu},
          {"kernels", f.kernels},
          {"threads", f.threads},
          {"model", f.model},
          {"batch", f.batch},
          {"sequence", f.sequence},
          {"steps", f.steps},
          {"quick", f.quick},
          {"only", f.only},
          {"gpus", std::move(gpus)},
          {"node", trireme::to_json(report.node)}};
}

}  // namespace trireme::device_check
