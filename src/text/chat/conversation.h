#pragma once
// A conversation. Holds JSON, whose header is slow to compile: for .cc files only.

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "base/json.h"

namespace trireme::chat {

struct Conversation {
  /// Objects with "role", "content" (a text or a list of parts) and what else templates use: tool_calls, name, ...
  Json messages = Json::array();
  Json tools = nullptr;             ///< a list of JSON schemas; null: none
  Json keywords = Json::object();   ///< further variables of the template
  size_t prompt = 0;                ///< the first messages, of which nothing counts in the loss
  std::set<size_t> untrained = {};  ///< further messages of which nothing counts
  std::optional<std::string> text;  ///< instead of messages: a text without roles, all of which counts
};

}  // namespace trireme::chat
