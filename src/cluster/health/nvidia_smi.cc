#include "cluster/health/nvidia_smi.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/text.h"
#include "cluster/health/check.h"

namespace trireme::health {
namespace {

/// Tracks the open sections of an indented text; gives each line its path.
class Indentation {
 public:
  std::string path(std::string_view line, std::string_view key) {
    const size_t depth = line.find_first_not_of(' ');
    while (!sections_.empty() && sections_.back().first >= depth) sections_.pop_back();
    std::string path;
    for (const auto& section : sections_) path += section.second + "/";
    sections_.emplace_back(depth, std::string(key));
    return path + std::string(key);
  }
  void clear() { sections_.clear(); }

 private:
  std::vector<std::pair<size_t, std::string>> sections_;
};

}  // namespace

std::string GpuFacts::value(const std::string& path) const {
  const auto found = values.find(path);
  return found == values.end() ? "" : found->second;
}

double GpuFacts::number(const std::string& path, double absent) const {
  const std::string text = value(path);
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? number : absent;
}

SmiReport parse_smi_query(std::string_view text) {
  SmiReport report;
  Indentation indentation;
  bool is_log = false;
  for (std::string_view line : split_lines(text)) {
    if (line.find("NVSMI LOG") != std::string_view::npos) is_log = true;
    const std::string_view content = trim_blanks(line);
    if (content.empty()) continue;
    if (line.starts_with("GPU ")) {
      report.gpus.push_back({std::string(trim_blanks(line.substr(4))), {}});
      indentation.clear();
      continue;
    }
    const size_t colon = content.find(" : ");
    const std::string_view key = trim_blanks(content.substr(0, colon));
    const std::string_view value =
        colon == std::string_view::npos ? std::string_view() : trim_blanks(content.substr(colon + 3));
    if (report.gpus.empty()) {
      if (key == "Attached GPUs") report.attached = std::atoi(std::string(value).c_str());
      continue;
    }
    const std::string path = indentation.path(line, key);
    if (colon != std::string_view::npos) report.gpus.back().values.emplace(path, value);
  }
  require(is_log, ErrorKind::data, "not the output of `nvidia-smi -q`: the NVSMI LOG line is missing");
  return report;
}

std::vector<NvlinkStatus> parse_nvlink_status(std::string_view text) {
  std::vector<NvlinkStatus> gpus;
  for (std::string_view line : split_lines(text)) {
    const std::string_view content = trim_blanks(line);
    if (content.starts_with("GPU ")) {
      gpus.push_back({std::string(content)});
      continue;
    }
    if (content.empty()) continue;
    require(!gpus.empty(), ErrorKind::data, "not the output of `nvidia-smi nvlink -s`: \"{}\"", content);
    NvlinkStatus& gpu = gpus.back();
    if (content.starts_with("Link ")) {
      (content.find("inactive") != std::string_view::npos ? gpu.inactive : gpu.active) += 1;
    } else if (content.find("all links are inactive") != std::string_view::npos) {
      gpu.all_inactive = true;
    } else if (content.find("not have or support") != std::string_view::npos ||
               content.find("not supported") != std::string_view::npos) {
      gpu.supported = false;
    }
  }
  require(!gpus.empty(), ErrorKind::data, "not the output of `nvidia-smi nvlink -s`: it lists no GPU");
  return gpus;
}

std::string smi_exit_reason(int code) {
  switch (code) {
    case 0:
      return "";
    case 2:
      return "an argument is wrong";
    case 3:
      return "the operation is not available on this device";
    case 4:
      return "no permission";
    case 6:
      return "a query found nothing";
    case 8:
      return "a GPU's power cables are not attached";
    case 9:
      return "the driver is not loaded";
    case 10:
      return "the driver has an interrupt problem with a GPU";
    case 12:
      return "the NVML library cannot be loaded";
    case 13:
      return "the NVML library lacks a function";
    case 14:
      return "a GPU's infoROM is corrupt";
    case 15:
      return "a GPU fell off the bus";
    case 127:
      return "nvidia-smi is not installed";
    case 255:
      return "the driver reports an internal error";
    default:
      return "an unknown error";
  }
}

std::vector<XidEvent> parse_xid_events(std::string_view text) {
  std::vector<XidEvent> events;
  for (std::string_view line : split_lines(text)) {
    const size_t at = line.find("NVRM: Xid (");
    if (at == std::string_view::npos) continue;
    const size_t open = at + 11, close = line.find(')', open);
    if (close == std::string_view::npos || close + 3 > line.size()) continue;
    XidEvent event;
    event.device = line.substr(open, close - open);
    const std::string_view code = trim_blanks(line.substr(close + 2));
    if (std::from_chars(code.data(), code.data() + code.size(), event.code).ec != std::errc()) continue;
    const size_t bracket = line.find('[');
    if (bracket < at) event.uptime = std::atof(std::string(line.substr(bracket + 1, at - bracket)).c_str());
    event.line = trim_blanks(line);
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace trireme::health
