#include "text/chat/chat_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat/conversation.h"
#include "text/chat/python_text.h"
#include "text/chat/said.h"

namespace trireme::chat {
namespace {

bool is_assistant(const Json& message) { return message.value("role", "") == "assistant"; }

bool calls_tools(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

bool has_tools(const Conversation& conversation) {
  return conversation.tools.is_array() && !conversation.tools.empty();
}

/// Ids that overlap one of the spans. Both are in order.
std::vector<uint8_t> mask_of(const std::vector<TextSpan>& places, const std::vector<TextSpan>& spans) {
  std::vector<uint8_t> mask(places.size(), 0);
  size_t span = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    while (span < spans.size() && spans[span].end <= places[i].begin) ++span;
    if (span == spans.size()) break;
    // What the tokenizer inserts, such as a space before a word, has an empty place.
    mask[i] = std::max(places[i].end, places[i].begin + 1) > spans[span].begin;
  }
  return mask;
}

bool is_special(const Tokenizer& tokenizer, TokenId id) {
  return !tokenizer.decode({&id, 1}).empty() && tokenizer.decode({&id, 1}, true).empty();
}

bool is_space(const Tokenizer& tokenizer, TokenId id) {
  return strip(tokenizer.decode({&id, 1}), std::nullopt).empty();
}

/// White space behind the token that ends a turn is the template's, not the assistant's.
void leave_out_space_after_end(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                               std::vector<uint8_t>& mask) {
  for (size_t i = ids.size(); i-- > 1;) {
    const bool last = mask[i] != 0 && (i + 1 == ids.size() || mask[i + 1] == 0);
    if (last && mask[i - 1] != 0 && is_special(tokenizer, ids[i - 1]) && is_space(tokenizer, ids[i])) mask[i] = 0;
  }
}

/// Whether the last counted id that is not white space is a special token, or the end of text.
bool ends_with_token(const Tokenizer& tokenizer, const ChatTokens& tokens, const std::string& end) {
  for (size_t i = tokens.ids.size(); i-- > 0;) {
    if (tokens.mask[i] == 0 || is_space(tokenizer, tokens.ids[i])) continue;
    return is_special(tokenizer, tokens.ids[i]) || (!end.empty() && tokenizer.token_to_id(end) == tokens.ids[i]);
  }
  return false;
}

Json said(const char* role, Json content) { return {{"role", role}, {"content", std::move(content)}}; }

Json part_of(const std::string& text) { return Json::array({{{"type", "text"}, {"text", text}}}); }

/// What the beginning of an answer has beyond the text that both texts begin with, on one line.
std::string added_by_prompt(std::string_view before, std::string_view whole) {
  const auto [at, other] = std::ranges::mismatch(before, whole);
  std::string line;
  for (const char c : before.substr(static_cast<size_t>(at - before.begin()))) {
    if (c == '\n')
      line += "\\n";
    else
      line += c;
  }
  return line;
}

}  // namespace

Json template_messages(const Json& messages) {
  Json made = Json::array();
  for (const Json& message : messages) {
    Json kept = Json::object();
    const Json* reasoning = nullptr;
    for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
      const auto at = message.find(name);
      if (reasoning == nullptr && at != message.end() && !at->is_null()) reasoning = &*at;
    }
    if (reasoning != nullptr) kept["thinking"] = *reasoning;
    for (const auto& [key, value] : message.items()) {
      if (!value.is_null()) kept[key] = value;
    }
    if (reasoning != nullptr) kept["reasoning_content"] = *reasoning;
    made.push_back(std::move(kept));
  }
  return made;
}

ChatTokens text_tokens(const std::string& text, const std::string& eos_token, const Tokenizer& tokenizer) {
  constexpr size_t kWhole = size_t{1} << 30;  // the tokenizer's own limit is for its model's inputs
  ChatTokens made;
  made.text = text;
  made.ids = tokenizer.encode(text, {.max_length = kWhole, .padding = false}).ids;
  const std::optional<TokenId> end = eos_token.empty() ? tokenizer.end_of_text() : tokenizer.token_to_id(eos_token);
  if (end && (made.ids.empty() || made.ids.back() != *end)) made.ids.push_back(*end);
  made.counted = {{0, text.size()}};
  made.mask.assign(made.ids.size(), 1);
  made.ends = end.has_value();
  return made;
}

ChatFormat::ChatFormat(const ChatFiles& files, const std::string& name, bool tools)
    : ChatFormat(files, find_template(files, name, tools)) {}

ChatFormat::ChatFormat(const ChatFiles& files, const TemplateSource& source)
    : template_(source.text, source.where), tokens_(files.tokens) {
  probe();
}

std::string ChatFormat::probed(const Json& messages) const {
  try {
    return render_messages(messages, {}, true).text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return "";
  }
}

void ChatFormat::probe() {
  const std::string one = "zebrafish", two = "quicksand";
  const auto writes = [&](const Json& messages, const std::string& word) {
    return probed(messages).find(word) != std::string::npos;
  };
  const Json parts = Json::array({part_of(one)[0], part_of(two)[0]});
  const std::string text = probed(Json::array({said("user", one + two)})),
                    list = probed(Json::array({said("user", parts)}));
  const bool reads_text = text.find(one) != std::string::npos;
  const bool reads_parts = list.find(two) != std::string::npos && list.find("'text'") == std::string::npos &&
                           list.find("\"text\"") == std::string::npos;
  if (!reads_text && reads_parts) content_ = Content::parts;
  if (reads_text && !reads_parts) content_ = Content::text;
  const Json content = content_ == Content::parts ? part_of(one) : Json(one);
  const Json question = said("user", content_ == Content::parts ? part_of(two) : Json(two));
  renames_developer_ = !writes(Json::array({said("developer", content), question}), one) &&
                       writes(Json::array({said("system", content), question}), one);
}

Rendered ChatFormat::render(const Conversation& conversation, size_t messages, bool prompts) const {
  const Json all = template_messages(conversation.messages);
  Json shown = Json::array();
  for (size_t i = 0; i < std::min(messages, all.size()); ++i) {
    Json message = all[i];
    if (message.contains("content")) {
      Json& content = message["content"];
      if (content_ == Content::text && content.is_array()) content = content_text(content);
      if (content_ == Content::parts && content.is_string()) content = part_of(content.get<std::string>());
    }
    if (renames_developer_ && message.value("role", "") == "developer") message["role"] = "system";
    shown.push_back(std::move(message));
  }
  return render_messages(std::move(shown), conversation, prompts);
}

Rendered ChatFormat::render_messages(Json messages, const Conversation& conversation, bool prompts) const {
  Json variables = Json::object();
  for (const auto& [name, token] : tokens_) variables[name] = token;
  variables.update(conversation.keywords);
  variables["messages"] = std::move(messages);
  variables["tools"] = has_tools(conversation) ? conversation.tools : Json();
  if (!variables.contains("documents")) variables["documents"] = nullptr;
  variables["add_generation_prompt"] = prompts;
  return template_.render(variables, now_);
}

std::vector<TokenId> ChatFormat::prompt_ids(const Conversation& conversation, const Tokenizer& tokenizer) const {
  std::vector<TokenId> ids;
  tokenizer.encode_chat(render(conversation, conversation.messages.size(), true).text, ids);
  return ids;
}

std::vector<size_t> ChatFormat::counted_messages(const Conversation& conversation, LossOn loss_on) const {
  std::vector<size_t> counted;
  for (size_t i = conversation.messages.size(); i-- > conversation.prompt;) {
    if (!is_assistant(conversation.messages[i])) continue;
    if (!conversation.untrained.contains(i)) counted.push_back(i);
    if (loss_on == LossOn::last) break;
  }
  std::ranges::reverse(counted);
  require(!counted.empty() || conversation.untrained.empty(), ErrorKind::data,
          "no turn of the assistant counts: the conversation's own switches (weight, train, ...) leave {} out",
          loss_on == LossOn::last ? "the last one" : "all of them");
  require(!counted.empty(), ErrorKind::data, "{}: the conversation has no turn of the assistant", template_.where());
  return counted;
}

std::string ChatFormat::text_before(const Conversation& conversation, size_t message, const std::string& whole) const {
  if (message > 0) return render(conversation, message, true).text;
  std::string text;  // many templates raise without a message, or write a message of the system
  try {
    text = render(conversation, 0, true).text;
    if (whole.starts_with(text)) return text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
  }
  const auto content = conversation.messages[0].find("content");
  const std::string all = content == conversation.messages[0].end() ? "" : content_text(*content);
  const std::string_view said = strip(all, std::nullopt);
  const size_t at = said.empty() ? std::string::npos : whole.find(said);
  return at == std::string::npos ? text : whole.substr(0, at);
}

std::vector<ChatFormat::Turn> ChatFormat::turns_by_prefix(const Conversation& conversation, const std::string& whole,
                                                          const std::vector<size_t>& counted) const {
  const size_t last = conversation.messages.size() - 1;
  std::vector<Turn> turns;
  for (const size_t i : counted) {
    const std::string before = text_before(conversation, i, whole),
                      with = i == last ? whole : render(conversation, i + 1, false).text;
    const bool opens = whole.starts_with(before), stays = whole.starts_with(with);
    require(
        opens || !stays, ErrorKind::data,
        "{}: message {} cannot be found in the conversation's text: the template begins an answer with \"{}\", which "
        "the text of a finished answer does not have; use a template with {{% generation %}} around what the assistant "
        "says (--chat-template FILE), or --loss-on all",
        template_.where(), i + 1, added_by_prompt(before, whole));
    require(
        opens && stays && with.size() > before.size(), ErrorKind::data,
        "{}: message {} cannot be found in the conversation's text: the template writes earlier turns in another way "
        "than the last one, and does not mark them; use a template with {{% generation %}} around what the assistant "
        "says (--chat-template FILE), or --loss-on last, or --loss-on all",
        template_.where(), i + 1);
    turns.push_back({i, {before.size(), with.size()}});
  }
  return turns;
}

std::vector<ChatFormat::Turn> ChatFormat::marked_turns(const Conversation& conversation, const Rendered& whole,
                                                       const std::vector<size_t>& counted, LossOn loss_on) const {
  const bool is_choice =
      conversation.prompt > 0 || loss_on == LossOn::last || !conversation.untrained.empty();  // of the marked ones
  std::vector<Turn> turns;
  for (const GeneratedSpan& span : whole.generated) {
    if (span.begin == span.end) continue;
    require(span.message || !is_choice, ErrorKind::data,
            "{}: a {{% generation %}} block does not show which message it writes, so it is unknown whether it counts; "
            "put it into the loop over the messages",
            template_.where());
    if (!is_choice || std::ranges::find(counted, *span.message) != counted.end())
      turns.push_back({span.message.value_or(conversation.messages.size()), {span.begin, span.end}});
  }
  require(!turns.empty(), ErrorKind::data, "{}: nothing {} is marked by {{% generation %}}", template_.where(),
          is_choice ? fmt::format("of message {}", counted.back() + 1) : "in the conversation's text");
  return turns;
}

std::vector<ChatFormat::Turn> ChatFormat::counted_turns(const Conversation& conversation, const Rendered& whole,
                                                        LossOn loss_on) const {
  const size_t none = conversation.messages.size();
  if (loss_on != LossOn::all) {
    const std::vector<size_t> counted = counted_messages(conversation, loss_on);
    return template_.marks_generation() ? marked_turns(conversation, whole, counted, loss_on)
                                        : turns_by_prefix(conversation, whole.text, counted);
  }
  require(conversation.untrained.empty(), ErrorKind::data,
          "message {} is not to count by its own switch (weight, train, ...), but --loss-on all counts everything",
          conversation.untrained.empty() ? 0 : *conversation.untrained.begin() + 1);
  if (conversation.prompt == 0) return {{none, {0, whole.text.size()}}};
  const std::string before = render(conversation, conversation.prompt, true).text;
  require(whole.text.starts_with(before), ErrorKind::data,
          "{}: the text of the prompt is not the beginning of the conversation's text", template_.where());
  return {{none, {before.size(), whole.text.size()}}};
}

void ChatFormat::check_said(const Conversation& conversation, const std::vector<size_t>& counted,
                            const std::vector<Turn>& turns, ChatTokens& made) const {
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    const Json& message = conversation.messages[i];
    const bool counts = std::ranges::find(counted, i) != counted.end();
    std::string own;  // of the text
    for (const Turn& turn : turns) {
      if (turn.message == i) own.append(made.text, turn.span.begin, turn.span.end - turn.span.begin).append("\n");
    }
    const std::string missing = missing_of(message, own.empty() ? made.text : own);
    if (missing.empty()) continue;
    if (missing == "content" && calls_tools(message)) {  // some templates write only the calls then
      Json calls = message;
      calls.erase("content");
      if (counts && !missing_of(calls, made.text).empty()) fail_unsaid(missing_of(calls, made.text), i);
      made.left_out.insert(message.value("role", ""));
      continue;
    }
    if (!counts) {
      made.left_out.insert(message.value("role", ""));
      continue;
    }
    // What a template marks may be less than what it writes; it cannot be nothing.
    if (missing != "content" && missing_of(message, made.text).empty()) continue;
    fail_unsaid(missing, i);
  }
}

void ChatFormat::fail_unsaid(const std::string& missing, size_t message) const {
  fail(ErrorKind::data,
       "{}: the template does not write the {} of message {}, which the assistant says, so an empty turn would be "
       "trained; use a template that does (--chat-template FILE)",
       template_.where(), missing, message + 1);
}

ChatTokens ChatFormat::tokens(const Conversation& conversation, const Tokenizer& tokenizer, LossOn loss_on) const {
  Rendered whole = render(conversation, conversation.messages.size(), false);
  const std::vector<Turn> turns = counted_turns(conversation, whole, loss_on);
  ChatTokens made;
  made.text = std::move(whole.text);
  check_said(conversation, counted_messages(conversation, loss_on), turns, made);
  for (const Turn& turn : turns) made.counted.push_back(turn.span);
  std::vector<TextSpan> places;
  tokenizer.encode_chat(made.text, made.ids, places);
  const bool of_all = loss_on == LossOn::all && conversation.prompt == 0;  // wherever ids are in the text
  made.mask = of_all ? std::vector<uint8_t>(made.ids.size(), 1) : mask_of(places, made.counted);
  if (loss_on != LossOn::all && !template_.marks_generation())
    leave_out_space_after_end(tokenizer, made.ids, made.mask);
  const auto end = tokens_.find("eos_token");
  made.ends = ends_with_token(tokenizer, made, end == tokens_.end() ? "" : end->second);
  return made;
}

}  // namespace trireme::chat
