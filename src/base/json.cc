#include "base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace trireme {
namespace {

constexpr int kMaxDepth = 64;  // no file of this field nests deeper than about ten

std::string place(std::string_view text, size_t offset) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < text.size() && i + 1 < offset; ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return fmt::format("line {}, column {}", line, column);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kMaxDepth) fail(ErrorKind::data, "{}: JSON nests deeper than {} levels", where, kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      fail(ErrorKind::data, "{}: key \"{}\" stands twice in one object", where, value.get<std::string>());
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::parse_error& e) {
    const std::string reason = e.what();
    const size_t colon = reason.rfind(": ");
    fail(ErrorKind::data, "{}: not valid JSON at {}: {}", where, place(text, e.byte),
         colon == std::string::npos ? reason : reason.substr(colon + 2));
  } catch (const Json::exception& e) {
    fail(ErrorKind::data, "{}: not valid JSON: {}", where, e.what());
  }
}

Json read_json(const std::string& path, size_t max_bytes) { return parse_json(read_text(path, max_bytes), path); }

}  // namespace trireme
