#include "cloud/command_line.h"

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

std::string last_line_of(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos) last = line;
  }
  return last;
}

/// "az vm create": what of a call can be told; its values need not be.
std::string action_of(const std::vector<std::string>& words) {
  std::string action;
  for (const std::string& word : words) {
    if (word.starts_with('-')) break;
    action += (action.empty() ? "" : " ") + word;
  }
  return action;
}

}  // namespace

void require_program(const std::string& program, const std::string& how) {
  require(!find_program(program).empty(), ErrorKind::config, "{} is not installed here; {}", program, how);
}

CommandEnd run_command(const std::vector<std::string>& words) {
  ProcessRequest request;
  request.arguments = words;
  request.timeout = std::chrono::hours(1);
  const ProcessResult result = run_process(request);
  CommandEnd end{result.exit_code == 0 && !result.timed_out, result.out, last_line_of(result.err)};
  if (!end.ok && end.err.empty()) end.err = describe_end(result);
  return end;
}

std::string run_or_fail(const std::string& what, const std::vector<std::string>& words) {
  const CommandEnd end = run_command(words);
  require(end.ok, ErrorKind::io, "{}: `{}` failed: {}", what, action_of(words), end.err);
  return end.out;
}

Json json_of(const std::string& what, const std::vector<std::string>& words) {
  const std::string out = run_or_fail(what, words);
  if (out.find_first_not_of(" \t\r\n") == std::string::npos) return nullptr;
  return parse_json(out, "answer of " + action_of(words));
}

std::string text_in(const Json& json, const char* member) {
  if (!json.is_object() || !json.contains(member) || !json[member].is_string()) return "";
  return json[member];
}

std::string tag_in(const Json& resource, const std::string& key) {
  if (!resource.is_object() || !resource.contains("tags")) return "";
  return text_in(resource["tags"], key.c_str());
}

}  // namespace trireme::cloud
