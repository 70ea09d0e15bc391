#include "data/chat/conversation_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "base/error.h"
#include "data/chat/rows.h"
#include "text/chat/conversation.h"

namespace trireme::chat {
namespace {

constexpr const char* kColumns[] = {"messages",    "conversations", "role",       "content", "system",
                                    "tools",       "prompt",        "completion", "chosen",  "rejected",
                                    "instruction", "input",         "output",     "history"};
constexpr const char* kRoles[] = {"system", "user", "assistant", "tool"};

/// Usual words for roles.
constexpr std::pair<std::string_view, const char*> kWords[] = {
    {"system", "system"},       {"developer", "developer"},
    {"user", "user"},           {"human", "user"},
    {"assistant", "assistant"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"},   {"bot", "assistant"},
    {"model", "assistant"},     {"tool", "tool"},
    {"observation", "tool"},    {"ipython", "tool"},
    {"function", "tool"},       {"function_call", "function_call"}};

/// Reads the columns of one row.
class Row {
 public:
  Row(const Json& row, const ConversationColumns& options) : row_(row), options_(options) {}

  std::string name(const std::string& column) const {
    const auto at = options_.columns.find(column);
    return at == options_.columns.end() ? column : at->second;
  }
  /// nullptr: missing or null.
  const Json* find(const std::string& column) const {
    const auto at = row_.find(name(column));
    return at == row_.end() || at->is_null() ? nullptr : &*at;
  }
  bool has(const char* column) const { return find(column) != nullptr; }
  std::string text(const char* column) const {
    const Json* const value = find(column);
    if (value == nullptr) return "";
    require(value->is_string(), ErrorKind::data, "\"{}\" is {}, expected a string", name(column), value->type_name());
    return value->get<std::string>();
  }
  /// A list, or its JSON as a text.
  Json list(const char* column) const {
    const Json* const value = find(column);
    const bool nothing = value == nullptr || (value->is_string() && value->get<std::string>().empty());
    if (nothing) return Json::array();
    Json parsed =
        value->is_string() ? parse_json(value->get<std::string>(), fmt::format("\"{}\"", name(column))) : *value;
    require(parsed.is_array(), ErrorKind::data, "\"{}\" is {}, expected a list", name(column), parsed.type_name());
    return parsed;
  }
  /// Whether a column holds messages: a list, or a text that is one.
  bool is_list(const char* column) const {
    const Json* const value = find(column);
    return value != nullptr &&
           (value->is_array() || (value->is_string() && value->get<std::string>().starts_with("[{")));
  }

  /// Messages of a column with a place for errors.
  Json messages(const char* column) const {
    Json made = Json::array();
    for (const Json& entry : list(column)) {
      const std::string place = fmt::format("\"{}\"[{}]", name(column), made.size());
      require(entry.is_object(), ErrorKind::data, "{} is {}, expected an object", place, entry.type_name());
      made.push_back(message(entry, place));
    }
    return made;
  }

 private:
  const Json* member(const Json& entry, const char* usual, const char* other) const {
    const std::string own = name(usual);
    for (const std::string& key : {own, std::string(other)}) {
      const auto at = entry.find(key);
      if (at != entry.end() && !at->is_null()) return &*at;
      if (own != usual) break;  // given by the user
    }
    return nullptr;
  }

  Json message(const Json& entry, const std::string& place) const {
    const Json *const word = member(entry, "role", "from"), *const content = member(entry, "content", "value");
    require(word != nullptr && word->is_string(), ErrorKind::data, "{} has no \"{}\"", place, name("role"));
    const std::string role = role_of(word->get<std::string>(), place);
    Json made = {{"role", role}};
    if (role == "function_call") return call(content, place);
    const bool calls = entry.contains("tool_calls") && !entry.at("tool_calls").is_null();
    require(content != nullptr || calls, ErrorKind::data, "{} has no \"{}\"", place, name("content"));
    made["content"] = content == nullptr ? Json("") : *content;
    check_content(made["content"], place);
    for (const auto& [key, value] : entry.items()) {
      const bool taken = &value == word || &value == content || made.contains(key);
      if (!taken) made[key] = value;
    }
    return made;
  }

  std::string role_of(const std::string& word, const std::string& place) const {
    const auto own = options_.roles.find(word);
    if (own != options_.roles.end()) return own->second;
    const auto known = std::ranges::find(kWords, word, &std::pair<std::string_view, const char*>::first);
    require(known != std::end(kWords), ErrorKind::data,
            "{} has the role \"{}\", which is not known; map it with --role {}=user (or system, assistant, tool)",
            place, word, word);
    return known->second;
  }

  static void check_content(const Json& content, const std::string& place) {
    if (content.is_string()) return;
    require(content.is_array(), ErrorKind::data, "{}: the content is {}, expected a string or a list of parts", place,
            content.type_name());
    for (const Json& part : content) {
      const bool text = part.is_object() && part.value("type", "") == "text" && part.contains("text");
      require(text, ErrorKind::data, "{}: a part of the content is not text; images, audio and video are not supported",
              place);
    }
  }

  /// ShareGPT's function_call, whose value is {"name", "arguments"} as a text.
  static Json call(const Json* value, const std::string& place) {
    require(value != nullptr && value->is_string(), ErrorKind::data, "{}: a function_call needs its JSON as a string",
            place);
    Json calls = parse_json(value->get<std::string>(), place);
    if (!calls.is_array()) calls = Json::array({calls});
    Json made = {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array()}};
    for (const Json& one : calls) made["tool_calls"].push_back({{"type", "function"}, {"function", one}});
    return made;
  }

  const Json& row_;
  const ConversationColumns& options_;
};

Json said(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

/// A column of text as one message of `role`, or of messages as they are.
void append(const Row& row, const char* column, const char* role, Json& messages) {
  if (!row.is_list(column)) {
    messages.push_back(said(role, row.text(column)));
    return;
  }
  for (const Json& message : row.messages(column)) messages.push_back(message);
}

/// The messages that system, a history and tools add, in front.
Conversation begun(const Row& row) {
  Conversation made;
  if (row.has("system") && !row.text("system").empty()) made.messages.push_back(said("system", row.text("system")));
  if (row.has("tools")) {
    made.tools = row.list("tools");
    if (made.tools.empty()) made.tools = nullptr;
  }
  return made;
}

Conversation alpaca(const Row& row) {
  Conversation made = begun(row);
  for (const Json& turn : row.list("history")) {
    const bool pair = turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    require(pair, ErrorKind::data, "an entry of \"{}\" is not a pair of strings", row.name("history"));
    made.messages.push_back(said("user", turn[0].get<std::string>()));
    made.messages.push_back(said("assistant", turn[1].get<std::string>()));
  }
  const std::string input = row.text("input");
  made.messages.push_back(said("user", row.text("instruction") + (input.empty() ? "" : "\n" + input)));
  made.messages.push_back(said("assistant", row.text("output")));
  return made;
}

Conversation completed(const Row& row) {
  Conversation made = begun(row);
  append(row, "prompt", "user", made.messages);
  made.prompt = made.messages.size();
  append(row, "completion", "assistant", made.messages);
  return made;
}

/// Of a pair: the messages that both have at the beginning are the prompt.
std::vector<Conversation> preference(const Row& row) {
  std::vector<Conversation> pair(2, begun(row));
  for (size_t i = 0; i < 2; ++i) {
    const char* const column = i == 0 ? "chosen" : "rejected";
    Json answer = Json::array();
    append(row, column, "assistant", answer);
    require(row.has("prompt") || row.is_list(column), ErrorKind::data,
            "\"{}\" is missing: \"{}\" is a text, which does not say what it answers", row.name("prompt"),
            row.name(column));
    // A prompt in words beside complete conversations repeats what they begin with.
    const bool complete = row.is_list(column) && !row.is_list("prompt") && !answer.empty() &&
                          answer[0].at("role").get<std::string>() != "assistant";
    if (row.has("prompt") && !complete) append(row, "prompt", "user", pair[i].messages);
    for (Json& message : answer) pair[i].messages.push_back(std::move(message));
  }
  const Json &chosen = pair[0].messages, &rejected = pair[1].messages;
  size_t same = 0;
  while (same < chosen.size() && same < rejected.size() && chosen[same] == rejected[same]) ++same;
  require(same < chosen.size() && same < rejected.size(), ErrorKind::data, "\"{}\" and \"{}\" do not differ",
          row.name("chosen"), row.name("rejected"));
  pair[0].prompt = pair[1].prompt = same;
  return pair;
}

/// "prompt, completion"
std::string names_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names.empty() ? "no column" : fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Conversation> pair_of(const Row& row, const Json& object) {
  require(row.has("chosen") && row.has("rejected"), ErrorKind::data,
          "no pair: expected \"{}\" and \"{}\", found {}; name others with --column chosen=NAME", row.name("chosen"),
          row.name("rejected"), names_of(object));
  std::vector<Conversation> pair = preference(row);
  require(pair[0].prompt > 0, ErrorKind::data,
          "\"{}\" and \"{}\" have no common prompt: their first messages differ; expected \"{}\" beside them, or "
          "conversations with the same beginning",
          row.name("chosen"), row.name("rejected"), row.name("prompt"));
  return pair;
}

std::vector<Conversation> conversations(const Row& row, const Json& object) {
  for (const char* column : {"messages", "conversations"}) {
    if (!row.has(column)) continue;
    Conversation made = begun(row);
    for (Json& message : row.messages(column)) made.messages.push_back(std::move(message));
    return {std::move(made)};
  }
  if (row.has("chosen") && row.has("rejected")) return preference(row);
  if (row.has("prompt") && row.has("completion")) return {completed(row)};
  if (row.has("instruction") && row.has("output")) return {alpaca(row)};
  fail(ErrorKind::data,
       "no conversation: expected \"messages\", \"conversations\", \"prompt\" and \"completion\", \"chosen\" and "
       "\"rejected\", or \"instruction\" and \"output\", found {}; name others with --column messages=NAME",
       names_of(object));
}

/// System first; then user and assistant in turn, with tool messages after an assistant's calls.
void check_order(const Conversation& conversation) {
  std::string before;
  bool answered = false;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const auto role = conversation.messages[i].at("role").get<std::string>();
    const bool first = before.empty() || before == "system" || before == "developer";
    const bool fits = role == "system" || role == "developer" ? before.empty()
                      : role == "user"                        ? first || before == "assistant" || before == "tool"
                      : role == "tool"                        ? before == "assistant" || before == "tool"
                                                              : before == "user" || before == "tool";
    require(fits, ErrorKind::data, "message {} has the role \"{}\" {}, which is out of order", i + 1, role,
            before.empty() ? "at the beginning" : fmt::format("after \"{}\"", before));
    answered = answered || (role == "assistant" && i >= conversation.prompt);
    before = role;
  }
  require(answered, ErrorKind::data, "no turn of the assistant");
}

}  // namespace

void check_columns(const ConversationColumns& columns) {
  for (const auto& [usual, own] : columns.columns)
    require(std::ranges::find(kColumns, std::string_view(usual)) != std::end(kColumns), ErrorKind::usage,
            "--column {}={}: \"{}\" is not a column; they are {}", usual, own, usual, fmt::join(kColumns, ", "));
  for (const auto& [word, role] : columns.roles)
    require(std::ranges::find(kRoles, std::string_view(role)) != std::end(kRoles), ErrorKind::usage,
            "--role {}={}: \"{}\" is not a role; they are {}", word, role, role, fmt::join(kRoles, ", "));
}

std::vector<Conversation> conversations_of(const Json& row, const ConversationColumns& columns) {
  const Row read(row, columns);
  std::vector<Conversation> made = columns.pairs ? pair_of(read, row) : conversations(read, row);
  std::ranges::for_each(made, check_order);
  return made;
}

RowCounts read_conversations(const std::string& path, const ConversationColumns& columns, bool skips,
                             const std::function<bool(uint64_t, const std::vector<Conversation>&)>& each,
                             const std::function<bool(uint64_t)>& wants) {
  RowCounts counts;
  const auto fault = [&](uint64_t row, const std::string& reason) {
    const std::string text = fmt::format("{} row {}: {}", path, row, reason);
    require(skips, ErrorKind::data, "{}; --skip-bad-rows skips and counts such rows", text);
    if (counts.skipped++ == 0) counts.first_skipped = text;
    return true;
  };
  read_rows(path, {.wants = wants,
                   .row =
                       [&](uint64_t row, const Json& object) {
                         ++counts.rows;
                         try {
                           const std::vector<Conversation> made = conversations_of(object, columns);
                           const bool on = each(row, made);
                           counts.conversations += made.size();
                           return on;
                         } catch (const Error& error) {
                           if (error.kind() != ErrorKind::data) throw;
                           return fault(row, error.what());
                         }
                       },
                   .fault =
                       [&](uint64_t row, const std::string& reason) {
                         ++counts.rows;
                         return fault(row, reason);
                       }});
  return counts;
}

}  // namespace trireme::chat
