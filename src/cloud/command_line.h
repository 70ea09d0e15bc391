#pragma once
// The providers' command lines, az and aws: they have the login, which this program never sees.

#include <string>
#include <vector>

#include "base/json.h"

namespace trireme::cloud {

/// Throws Error::config naming how to install the program if it is missing.
void require_program(const std::string& program, const std::string& how);

struct CommandEnd {
  bool ok = false;
  std::string out, err;  ///< err: the line with the reason
};

CommandEnd run_command(const std::vector<std::string>& words);
/// Returns its output. Throws Error::io naming `what` and the program's reason.
std::string run_or_fail(const std::string& what, const std::vector<std::string>& words);
/// The same, parsed as JSON; null for empty output.
Json json_of(const std::string& what, const std::vector<std::string>& words);

/// The same for an answer that must be a list.
Json list_of(const std::string& what, const std::vector<std::string>& words);
/// The same for a call that has ended.
Json json_in(const std::string& what, const std::vector<std::string>& words, const CommandEnd& end);
Json list_in(const std::string& what, const std::vector<std::string>& words, const CommandEnd& end);

/// A text member of an answer; "" if it is missing.
std::string text_in(const Json& json, const char* member);
/// The value of a tag in {"key": "value", ...}.
std::string tag_in(const Json& resource, const std::string& key);

}  // namespace trireme::cloud
