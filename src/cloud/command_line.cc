#include "cloud/command_line.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "cloud/provider_words.h"
#include "cluster/subprocess.h"

namespace trireme::cloud {
namespace {

/// The beginning of a text on one line, for a message.
std::string beginning_of(const std::string& text) {
  constexpr size_t kMost = 80;
  std::string shown = text.substr(0, kMost);
  std::ranges::replace_if(
      shown, [](unsigned char c) { return c < ' ' || c > '~'; }, ' ');
  return shown + (text.size() > kMost ? "..." : "");
}

/// "az vm create": the part of a call for messages; leaves out its values.
std::string action_of(const std::vector<std::string>& words) {
  std::string action;
  for (const std::string& word : words) {
    if (word.starts_with('-')) break;
    action += (action.empty() ? "" : " ") + word;
  }
  return action;
}

std::string output_of(const std::string& what, const std::vector<std::string>& words, const CommandEnd& end) {
  require(end.ok, ErrorKind::io, "{}: `{}` failed: {}", what, action_of(words), end.err);
  return end.out;
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
  CommandEnd end{result.exit_code == 0 && !result.timed_out, result.out, reason_in(result.err)};
  if (!end.ok && end.err.empty()) end.err = describe_end(result);
  return end;
}

std::string run_or_fail(const std::string& what, const std::vector<std::string>& words) {
  return output_of(what, words, run_command(words));
}

Json json_of(const std::string& what, const std::vector<std::string>& words) {
  return json_in(what, words, run_command(words));
}

Json json_in(const std::string& what, const std::vector<std::string>& words, const CommandEnd& end) {
  const std::string out = output_of(what, words, end);
  if (out.find_first_not_of(" \t\r\n") == std::string::npos) return nullptr;
  try {
    return parse_json(out, "answer");
  } catch (const Error& e) {
    fail(ErrorKind::io, "{}: `{} ... --output json` did not return JSON but \"{}\" ({})", what, action_of(words),
         beginning_of(out), e.what());
  }
}

Json list_of(const std::string& what, const std::vector<std::string>& words) {
  return list_in(what, words, run_command(words));
}

Json list_in(const std::string& what, const std::vector<std::string>& words, const CommandEnd& end) {
  Json answer = json_in(what, words, end);
  require(answer.is_array(), ErrorKind::io, "{}: `{}` returned {}, expected a list", what, action_of(words),
          answer.is_null() ? "nothing" : "\"" + beginning_of(dump_json(answer)) + "\"");
  return answer;
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
