#include "data/chat/conversation_rows.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "base/count.h"
#include "base/error.h"
#include "data/chat/rows.h"
#include "text/chat/conversation.h"

namespace trireme::chat {
namespace {

constexpr const char* kColumns[] = {"messages",    "conversations", "role",       "content", "system",
                                    "tools",       "prompt",        "completion", "chosen",  "rejected",
                                    "instruction", "input",         "output",     "history", "text"};
constexpr size_t kMostReasonBytes = 200, kMostReasons = 100, kShownReasons = 5,  // why rows were skipped
    kMostListed = 100'000;
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

/// Members of messages, in other programs' formats, that say whether a turn is trained on.
struct Switch {
  enum Kind { on, off, refused };
  std::string_view name;
  Kind kind;  ///< off: true, or 1, means that it is not trained on; refused: something else than yes or no
};
constexpr Switch kSwitches[] = {{"weight", Switch::on},
                                {"train", Switch::on},
                                {"trainable", Switch::on},
                                {"training", Switch::on},
                                {"loss", Switch::on},
                                {"masked", Switch::off},
                                {"mask", Switch::off},
                                {"train_detail", Switch::refused},
                                {"training_detail", Switch::refused},
                                {"loss_scale", Switch::refused},
                                {"loss_weight", Switch::refused},
                                {"loss_mask", Switch::refused}};

/// Columns that would change the loss of a row.
constexpr const char* kRowWeights[] = {"weight",     "weights",   "sample_weight",   "loss_weight",
                                       "loss_scale", "loss_mask", "assistant_masks", "completion_mask"};

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
    if (value->is_object() && is_message(*value)) return Json::array({*value});
    Json parsed =
        value->is_string() ? parsed_text(value->get<std::string>(), fmt::format("\"{}\"", name(column))) : *value;
    require(parsed.is_array(), ErrorKind::data, "\"{}\" is {}, expected a list", name(column), parsed.type_name());
    return parsed;
  }
  /// Whether a column holds messages: a list, or one of them. A text is what somebody says, unless it is the JSON of a
  /// list of messages, and so are the other columns of its `form` that are there.
  bool is_list(const char* column, std::initializer_list<const char*> form) const {
    const Json* const value = find(column);
    if (value == nullptr || !value->is_string()) return value != nullptr && value->is_structured();
    return std::ranges::all_of(form, [&](const char* one) { return !has(one) || holds_messages(*find(one)); });
  }

  /// Appends the messages of a column, with a place for errors.
  void append_messages(const char* column, Conversation& made) const {
    size_t number = 0;
    for (const Json& entry : list(column)) {
      const std::string place = fmt::format("\"{}\"[{}]", name(column), number++);
      require(!entry.is_array(), ErrorKind::data,
              "{} is a list, expected an object: the file seems to hold all conversations in one row; write a row for "
              "each of them",
              place);
      require(entry.is_object(), ErrorKind::data, "{} is {}, expected an object", place, entry.type_name());
      Json one = message(entry, place);
      if (!is_trained(entry, one.at("role") == "assistant", place)) made.untrained.insert(made.messages.size());
      made.messages.push_back(std::move(one));
    }
  }

  Json object(const char* column) const {
    const Json& value = *find(column);
    Json parsed =
        value.is_string() ? parsed_text(value.get<std::string>(), fmt::format("\"{}\"", name(column))) : value;
    require(parsed.is_object(), ErrorKind::data, "\"{}\" is {}, expected an object", name(column), parsed.type_name());
    return parsed;
  }
  /// Whether "prompt" is the text of the first message of the user in complete conversations.
  bool repeats_prompt() const {
    const Json *const prompt = find("prompt"), *const chosen = find("chosen");
    if (prompt == nullptr || chosen == nullptr || !prompt->is_string() || !holds_messages(*chosen)) return false;
    for (const Json& entry : list("chosen")) {
      const Json* const content = member(entry, "content", "value");
      if (content != nullptr && *content == *prompt) return true;
    }
    return false;
  }
  /// The columns that are there: "prompt, completion; null: rejected".
  std::string names() const {
    std::vector<std::string> names, nulls;
    for (const auto& [name, value] : row_.items()) (value.is_null() ? nulls : names).push_back(name);
    return (names.empty() ? "no column" : fmt::format("{}", fmt::join(names, ", "))) +
           (nulls.empty() ? "" : fmt::format(" (null: {})", fmt::join(nulls, ", ")));
  }
  /// A weight of the row, or of its ids, would change the loss.
  void require_unweighted() const {
    for (const char* column : kRowWeights) {
      const auto at = row_.find(column);
      const bool plain = at == row_.end() || at->is_null() || *at == 1 || *at == "1" || *at == "default" ||
                         (at->is_string() && at->get_ref<const std::string&>().empty());
      require(plain, ErrorKind::data,
              "\"{}\" is {}: weights of a row or of its ids are not supported; remove the column", column,
              plain ? "" : at->dump().substr(0, 60));
    }
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

  static Json parsed_text(const std::string& text, const std::string& place) {
    try {
      return parse_json(text, place);
    } catch (const Error& error) {
      fail(ErrorKind::data, "{}{}", error.what(), advice_on_json(text));
    }
  }

  bool is_message(const Json& entry) const {
    if (!entry.is_object()) return false;
    const Json *const word = member(entry, "role", "from"), *const content = member(entry, "content", "value");
    return word != nullptr && word->is_string() && knows_role(word->get<std::string>()) &&
           (content != nullptr || entry.contains("tool_calls") || entry.contains("function_call"));
  }
  bool holds_messages(const Json& value) const {
    if (!value.is_string()) return value.is_structured();
    const auto& text = value.get_ref<const std::string&>();
    if (!text.starts_with('[')) return false;
    const Json parsed = Json::parse(text, nullptr, false);
    return parsed.is_array() && !parsed.empty() &&
           std::ranges::all_of(parsed, [&](const Json& entry) { return is_message(entry); });
  }

  Json message(const Json& entry, const std::string& place) const {
    const Json *const word = member(entry, "role", "from"), *const content = member(entry, "content", "value");
    require(word != nullptr && word->is_string(), ErrorKind::data, "{} has no \"{}\"", place, name("role"));
    const std::string role = role_of(word->get<std::string>(), place);
    Json made = {{"role", role}};
    if (role == "function_call") return call(content, place);
    const auto old_call = entry.find("function_call");  // of OpenAI's first interface
    const bool calls_once = old_call != entry.end() && old_call->is_object();
    const bool calls = calls_once || (entry.contains("tool_calls") && !entry.at("tool_calls").is_null());
    require(content != nullptr || calls, ErrorKind::data, "{} has no \"{}\"", place, name("content"));
    made["content"] = content == nullptr ? Json("") : *content;
    check_content(made["content"], place);
    if (calls_once) made["tool_calls"] = Json::array({called(*old_call)});
    for (const auto& [key, value] : entry.items()) {
      const bool taken =
          &value == word || &value == content || made.contains(key) || (calls_once && key == "function_call");
      if (!taken) made[key] = value;
    }
    return made;
  }

  bool knows_role(const std::string& word) const {
    return options_.roles.contains(word) ||
           std::ranges::find(kWords, word, &std::pair<std::string_view, const char*>::first) != std::end(kWords);
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
    for (const Json& one : calls) made["tool_calls"].push_back(called(one));
    return made;
  }

  /// A call of a function {"name", "arguments"}; arguments may be their JSON as a text.
  static Json called(Json function) {
    if (const auto given = function.is_object() ? function.find("arguments") : function.end();
        given != function.end() && given->is_string()) {
      Json arguments = Json::parse(given->get<std::string>(), nullptr, false);
      if (arguments.is_object()) *given = std::move(arguments);
    }
    return {{"type", "function"}, {"function", std::move(function)}};
  }

  /// Whether the message's own switches let it count in the loss.
  static bool is_trained(const Json& entry, bool is_assistant, const std::string& place) {
    bool trained = true;
    for (const auto& [key, value] : entry.items()) {
      const auto known = std::ranges::find(kSwitches, key, &Switch::name);
      if (known == std::end(kSwitches) || value.is_null()) continue;
      const bool is_number = value.is_number() && (value == 0 || value == 1);
      require(known->kind != Switch::refused || value == 1 || value == "default" || value == true, ErrorKind::data,
              "{}: \"{}\" is {}: parts of a message, or weights of its ids, are not supported; remove it", place, key,
              value.dump().substr(0, 60));
      if (known->kind == Switch::refused) continue;
      require(value.is_boolean() || is_number, ErrorKind::data,
              "{}: \"{}\" is {}, expected true or false: a turn counts in the loss or not", place, key,
              value.dump().substr(0, 60));
      const bool on = (value == true || value == 1) != (known->kind == Switch::off);
      require(is_assistant || !on || known->kind != Switch::on || key == "weight", ErrorKind::data,
              "{}: \"{}\" is {}, but only turns of the assistant are trained on; remove it", place, key, value.dump());
      trained = trained && on;
    }
    return trained || !is_assistant;
  }

  const Json& row_;
  const ConversationColumns& options_;
};

Json said(const char* role, std::string text) { return {{"role", role}, {"content", std::move(text)}}; }

/// A column of text as one message of `role`, or of messages as they are. form: the columns that belong together.
void append(const Row& row, const char* column, const char* role, std::initializer_list<const char*> form,
            Conversation& made) {
  if (row.is_list(column, form))
    row.append_messages(column, made);
  else
    made.messages.push_back(said(role, row.text(column)));
}

/// The messages that system, a history and tools add, in front.
Conversation begun(const Row& row) {
  Conversation made;
  if (row.has("system") && !row.text("system").empty()) made.messages.push_back(said("system", row.text("system")));
  if (row.has("tools")) {
    made.tools = row.list("tools");
  } else if (row.has("functions")) {  // OpenAI's first interface
    made.tools = Json::array();
    for (const Json& function : row.list("functions"))
      made.tools.push_back({{"type", "function"}, {"function", function}});
  }
  if (made.tools.empty()) made.tools = nullptr;
  if (row.has("chat_template_kwargs")) made.keywords = row.object("chat_template_kwargs");
  return made;
}

/// Alpaca's question: earlier turns, then instruction and input.
void append_question(const Row& row, Conversation& made) {
  for (const Json& turn : row.list("history")) {
    const bool pair = turn.is_array() && turn.size() == 2 && turn[0].is_string() && turn[1].is_string();
    require(pair, ErrorKind::data, "an entry of \"{}\" is not a pair of strings", row.name("history"));
    made.messages.push_back(said("user", turn[0].get<std::string>()));
    made.messages.push_back(said("assistant", turn[1].get<std::string>()));
  }
  const std::string input = row.text("input");
  made.messages.push_back(said("user", row.text("instruction") + (input.empty() ? "" : "\n" + input)));
}

Conversation alpaca(const Row& row) {
  Conversation made = begun(row);
  append_question(row, made);
  made.messages.push_back(said("assistant", row.text("output")));
  return made;
}

Conversation completed(const Row& row) {
  Conversation made = begun(row);
  append(row, "prompt", "user", {"prompt", "completion"}, made);
  made.prompt = made.messages.size();
  append(row, "completion", "assistant", {"prompt", "completion"}, made);
  return made;
}

/// The column of messages that the row has: "messages" or "conversations"; nullptr: none.
const char* column_of_messages(const Row& row) {
  for (const char* column : {"messages", "conversations"}) {
    if (row.has(column)) return column;
  }
  return nullptr;
}

/// One answer of a pair with what comes before it.
Conversation answered(const Row& row, const char* column) {
  const std::initializer_list<const char*> answers = {"chosen", "rejected"}, all = {"prompt", "chosen", "rejected"};
  const std::initializer_list<const char*>& form = row.repeats_prompt() ? answers : all;
  Conversation answer;
  append(row, column, "assistant", form, answer);
  const bool messages = row.is_list(column, form);
  const bool complete = messages && !answer.messages.empty() && answer.messages[0].at("role") != "assistant";
  Conversation made = begun(row);
  if (row.has("prompt")) {
    // A prompt in words beside complete conversations repeats what they begin with.
    if (!complete || row.is_list("prompt", all)) append(row, "prompt", "user", all, made);
  } else if (!complete && row.has("instruction")) {
    append_question(row, made);
  } else if (const char* before = column_of_messages(row); !complete && before != nullptr) {
    row.append_messages(before, made);
  } else {
    require(messages, ErrorKind::data,
            "\"{}\" is missing: \"{}\" is a text, which does not say what it answers; found {}; name others with "
            "--column prompt=NAME",
            row.name("prompt"), row.name(column), row.names());
  }
  const size_t first = made.messages.size();
  for (Json& message : answer.messages) made.messages.push_back(std::move(message));
  for (const size_t one : answer.untrained) made.untrained.insert(first + one);
  return made;
}

/// Of a pair: the messages that both have at the beginning are the prompt.
std::vector<Conversation> preference(const Row& row) {
  std::vector<Conversation> pair = {answered(row, "chosen"), answered(row, "rejected")};
  const Json &chosen = pair[0].messages, &rejected = pair[1].messages;
  size_t same = 0;
  while (same < chosen.size() && same < rejected.size() && chosen[same] == rejected[same]) ++same;
  require(same < chosen.size() || same < rejected.size(), ErrorKind::data, "\"{}\" and \"{}\" do not differ",
          row.name("chosen"), row.name("rejected"));
  const char *const longer = same < chosen.size() ? "chosen" : "rejected", *const other = same < chosen.size()
                                                                                              ? "rejected"
                                                                                              : "chosen";
  require(
      same < chosen.size() && same < rejected.size(), ErrorKind::data,
      "\"{}\" only continues \"{}\", which ends after their {} common messages, so there are not two answers to one "
      "prompt",
      row.name(longer), row.name(other), same);
  pair[0].prompt = pair[1].prompt = same;
  return pair;
}

std::vector<Conversation> pair_of(const Row& row) {
  require(row.has("chosen") && row.has("rejected"), ErrorKind::data,
          "no pair: expected \"{}\" and \"{}\", found {}; name others with --column chosen=NAME", row.name("chosen"),
          row.name("rejected"), row.names());
  std::vector<Conversation> pair = preference(row);
  require(pair[0].prompt > 0, ErrorKind::data,
          "\"{}\" and \"{}\" have no common prompt: their first messages differ; expected \"{}\" beside them, or "
          "conversations with the same beginning",
          row.name("chosen"), row.name("rejected"), row.name("prompt"));
  return pair;
}

std::vector<Conversation> conversations(const Row& row) {
  const bool is_pair = row.has("chosen") && row.has("rejected");
  if (const char* column = column_of_messages(row); column != nullptr) {
    Conversation made = begun(row);
    row.append_messages(column, made);
    const bool asks = !made.messages.empty() && made.messages.back().at("role") == "user";
    if (!asks || !is_pair) return {std::move(made)};
  }
  if (is_pair) return preference(row);
  if (row.has("prompt") && row.has("completion")) return {completed(row)};
  if (row.has("instruction") && row.has("output")) return {alpaca(row)};
  if (row.has("text")) {
    Conversation made;
    made.text = row.text("text");
    require(!made.text->empty(), ErrorKind::data, "\"{}\" is empty", row.name("text"));
    return {std::move(made)};
  }
  fail(ErrorKind::data,
       "no conversation: expected \"messages\", \"conversations\", \"prompt\" and \"completion\", \"chosen\" and "
       "\"rejected\", \"instruction\" and \"output\", or \"text\", found {}; name others with --column messages=NAME",
       row.names());
}

/// In which order roles may come is the template's to say.
void require_answer(const Conversation& conversation) {
  if (conversation.text) return;
  size_t turns = 0, counted = 0;
  for (size_t i = conversation.prompt; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i].at("role") != "assistant") continue;
    ++turns;
    counted += conversation.untrained.contains(i) ? 0 : 1;
  }
  require(turns > 0, ErrorKind::data, "no turn of the assistant");
  require(counted > 0, ErrorKind::data,
          "no turn of the assistant counts: the messages' own switches (weight, train, ...) leave all of them out");
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
  read.require_unweighted();
  std::vector<Conversation> made = columns.pairs ? pair_of(read) : conversations(read);
  std::ranges::for_each(made, require_answer);
  return made;
}

void RowCounts::skip(const std::string& path, uint64_t row, const std::string& reason) {
  if (skipped++ == 0) first_skipped = fmt::format("{} row {}: {}", path, row, reason);
  std::string kind;
  for (const char c : reason.substr(0, kMostReasonBytes)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit || !kind.ends_with('N')) kind += digit ? 'N' : c;
  }
  if (reasons.size() < kMostReasons || reasons.contains(kind)) {
    ++reasons[kind];
    firsts.try_emplace(kind, fmt::format("{} row {}", path, row));
  }
  if (list.size() < kMostListed) list.push_back(fmt::format("{} row {}: {}", path, row, reason));
}

void RowCounts::add(const RowCounts& other) {
  rows += other.rows;
  conversations += other.conversations;
  skipped += other.skipped;
  if (first_skipped.empty()) first_skipped = other.first_skipped;
  for (const auto& [reason, count] : other.reasons) reasons[reason] += count;
  firsts.insert(other.firsts.begin(), other.firsts.end());
  for (const std::string& line : other.list) {
    if (list.size() < kMostListed) list.push_back(line);
  }
}

std::string RowCounts::skipped_text() const {
  std::string text = fmt::format("{} skipped of {}", skipped, count_text(rows, "row"));
  if (reasons.size() < 2) return text + "; for example " + first_skipped;
  std::vector<std::pair<std::string, uint64_t>> order(reasons.begin(), reasons.end());
  std::ranges::stable_sort(order, std::ranges::greater{}, &std::pair<std::string, uint64_t>::second);
  for (size_t i = 0; i < std::min(order.size(), kShownReasons); ++i) {
    const auto& [reason, count] = order[i];
    const auto first = firsts.find(reason);
    text += fmt::format("{}{} x {}{}", i == 0 ? ": " : " | ", count, reason,
                        first == firsts.end() ? "" : fmt::format(" (first {})", first->second));
  }
  return order.size() > kShownReasons ? text + " | ..." : text;
}

RowCounts read_conversations(const std::string& path, const ConversationColumns& columns, bool skips,
                             const std::function<bool(uint64_t, const std::vector<Conversation>&)>& each,
                             const std::function<bool(uint64_t)>& wants) {
  RowCounts counts;
  const auto fault = [&](uint64_t row, const std::string& reason) {
    const std::string text = fmt::format("{} row {}: {}", path, row, reason);
    require(skips, ErrorKind::data, "{}; --skip-bad-rows skips and counts such rows", text);
    counts.skip(path, row, reason);
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
