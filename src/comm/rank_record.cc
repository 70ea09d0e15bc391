#include "comm/rank_record.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/printable.h"
#include "comm/launcher.h"

namespace trireme {
namespace {

constexpr std::string_view kMark = "trireme-record: ";
constexpr const char* kKinds[] = {"arrived", "error", "lost"};
constexpr size_t kMostTextBytes = 1000, kMostHostBytes = 255;  // JSON can double them

}  // namespace

std::string to_line(const RankRecord& record) {
  Json json{{"record", kKinds[static_cast<size_t>(record.kind)]}};
  if (record.rank >= 0) json["rank"] = record.rank;
  if (record.other >= 0) json["other"] = record.other;
  if (!record.host.empty()) json["host"] = printable(record.host, kMostHostBytes);
  if (!record.text.empty()) json["text"] = printable(record.text, kMostTextBytes);
  return std::string(kMark) + dump_json(json);
}

std::optional<RankRecord> record_in(std::string_view line) {
  if (!line.starts_with(kMark)) return {};
  try {
    const Json json = parse_json(line.substr(kMark.size()), "record");
    const auto kind = std::ranges::find(kKinds, json.at("record").get<std::string>());
    if (kind == std::end(kKinds)) return {};
    return RankRecord{static_cast<RankRecord::Kind>(kind - std::begin(kKinds)), json.value("rank", -1),
                      json.value("host", ""), json.value("text", ""), json.value("other", -1)};
  } catch (const std::exception&) {
    return {};  // somebody else's line
  }
}

void tell_launch(const RankRecord& record) {
  if (std::getenv(kLaunchIdVariable) == nullptr) return;
  const std::string line = to_line(record) + "\n";
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));  // who reads it may have ended
}

void tell_launch_errors() {
  if (std::getenv(kLaunchIdVariable) == nullptr) return;
  log::set_error_listener([](std::string_view shown) {
    tell_launch({.kind = RankRecord::Kind::error, .text = std::string(shown.substr(0, shown.find('\n')))});
  });
}

}  // namespace trireme
