#include "text/chat/chat_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat/conversation.h"
#include "text/chat/python_text.h"

namespace trireme::chat {
namespace {

bool is_assistant(const Json& message) { return message.value("role", "") == "assistant"; }

bool has_tools(const Conversation& conversation) {
  return conversation.tools.is_array() && !conversation.tools.empty();
}

/// Ids that overlap one of the spans. Both are in order.
std::vector<uint8_t> mask_of(const std::vector<Span>& places, const std::vector<Span>& spans) {
  std::vector<uint8_t> mask(places.size(), 0);
  size_t span = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    while (span < spans.size() && spans[span].end <= places[i].begin) ++span;
    if (span == spans.size()) break;
    // The bytes of a character may belong to several ids; the places of all but the last are empty.
    mask[i] = std::max(places[i].end, places[i].begin + 1) > spans[span].begin;
  }
  return mask;
}

/// White space behind the token that ends a turn is the template's, not the assistant's.
void leave_out_space_after_end(const Tokenizer& tokenizer, const std::vector<TokenId>& ids,
                               std::vector<uint8_t>& mask) {
  const auto text = [&](size_t i) { return tokenizer.decode(std::span(&ids[i], 1)); };
  const auto is_special = [&](size_t i) {
    return !text(i).empty() && tokenizer.decode(std::span(&ids[i], 1), true).empty();
  };
  for (size_t i = ids.size(); i-- > 1;) {
    const bool last = mask[i] != 0 && (i + 1 == ids.size() || mask[i + 1] == 0);
    if (last && is_special(i - 1) && mask[i - 1] != 0 && strip(text(i), std::nullopt).empty()) mask[i] = 0;
  }
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

ChatFormat::ChatFormat(const ChatFiles& files, const std::string& name, bool tools)
    : ChatFormat(files, find_template(files, name, tools)) {}

ChatFormat::ChatFormat(const ChatFiles& files, const TemplateSource& source)
    : template_(source.text, source.where), tokens_(files.tokens) {}

Rendered ChatFormat::render(const Conversation& conversation, size_t messages, bool prompts) const {
  Json variables = Json::object();
  for (const auto& [name, token] : tokens_) variables[name] = token;
  variables.update(conversation.keywords);
  const Json all = template_messages(conversation.messages);
  Json shown = Json::array();
  for (size_t i = 0; i < std::min(messages, all.size()); ++i) shown.push_back(all[i]);
  variables["messages"] = std::move(shown);
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

std::vector<Span> ChatFormat::spans_by_prefix(const Conversation& conversation, const std::string& whole,
                                              LossOn loss_on) const {
  const Json& messages = conversation.messages;
  std::vector<Span> spans;
  for (size_t i = messages.size(); i-- > conversation.prompt;) {
    if (!is_assistant(messages[i])) continue;
    const std::string before = render(conversation, i, true).text, with = render(conversation, i + 1, false).text;
    const bool shown = whole.starts_with(before) && whole.starts_with(with) && with.size() > before.size();
    require(
        shown, ErrorKind::data,
        "{}: message {} cannot be found in the conversation's text: the template writes earlier turns in another way "
        "than the last one, and does not mark them; use a template with {{% generation %}} around what the assistant "
        "says (--chat-template FILE), or --loss-on last, or --loss-on all",
        template_.where(), i + 1);
    spans.push_back({before.size(), with.size()});
    if (loss_on == LossOn::last) break;
  }
  std::ranges::reverse(spans);
  return spans;
}

std::vector<Span> ChatFormat::counted_spans(const Conversation& conversation, const Rendered& whole,
                                            LossOn loss_on) const {
  if (loss_on == LossOn::all && conversation.prompt == 0) return {{0, whole.text.size()}};
  if (loss_on == LossOn::all) {
    const std::string before = render(conversation, conversation.prompt, true).text;
    require(whole.text.starts_with(before), ErrorKind::data,
            "{}: the text of the prompt is not the beginning of the conversation's text", template_.where());
    return {{before.size(), whole.text.size()}};
  }
  if (!template_.marks_generation()) return spans_by_prefix(conversation, whole.text, loss_on);
  std::vector<Span> spans = whole.generated;
  std::erase_if(spans, [](const Span& span) { return span.begin == span.end; });
  if (conversation.prompt > 0) {
    const auto earlier =
        std::count_if(conversation.messages.begin(),
                      conversation.messages.begin() + static_cast<ptrdiff_t>(conversation.prompt), is_assistant);
    spans.erase(spans.begin(), spans.begin() + std::min(earlier, std::ssize(spans)));
  }
  if (loss_on == LossOn::last && spans.size() > 1) spans.erase(spans.begin(), spans.end() - 1);
  return spans;
}

ChatTokens ChatFormat::tokens(const Conversation& conversation, const Tokenizer& tokenizer, LossOn loss_on) const {
  Rendered whole = render(conversation, conversation.messages.size(), false);
  ChatTokens made;
  made.counted = counted_spans(conversation, whole, loss_on);
  require(!made.counted.empty() || !template_.marks_generation(), ErrorKind::data,
          "{}: nothing in the conversation's text is marked by {{% generation %}}", template_.where());
  require(!made.counted.empty(), ErrorKind::data, "{}: the conversation has no turn of the assistant",
          template_.where());
  made.text = std::move(whole.text);
  tokenizer.encode_chat(made.text, made.ids);
  const bool of_all = loss_on == LossOn::all && conversation.prompt == 0;  // wherever ids are in the text
  made.mask = of_all ? std::vector<uint8_t>(made.ids.size(), 1)
                     : mask_of(places_of_ids(tokenizer, made.text, made.ids), made.counted);
  if (loss_on != LossOn::all) leave_out_space_after_end(tokenizer, made.ids, made.mask);
  return made;
}

std::vector<Span> places_of_ids(const Tokenizer& tokenizer, const std::string& text, const std::vector<TokenId>& ids) {
  std::vector<Span> places;
  size_t place = 0;
  const auto stream = tokenizer.stream();
  const auto matches = [&](size_t at, const std::string& part) {
    return at <= text.size() && text.compare(at, part.size(), part) == 0;
  };
  bool same = true;
  for (const TokenId id : ids) {
    std::string part = stream->feed(id);
    // Decoders of the first Llama drop or add a space at a text's beginning and behind special tokens.
    if (!matches(place, part) && part.starts_with(' ') && matches(place, part.substr(1))) part.erase(0, 1);
    const bool dropped = !matches(place, part) && place < text.size() && text[place] == ' ';
    if (dropped && matches(place + 1, part)) ++place;
    same = same && matches(place, part);
    places.push_back({place, place + part.size()});
    place += part.size();
  }
  place += stream->finish().size();
  require(same && place == text.size(), ErrorKind::data,
          "the tokenizer changes the conversation's text (it becomes \"{}\"...), so the ids of a turn cannot be found; "
          "--loss-on all needs no turns",
          tokenizer.decode(ids).substr(0, 60));
  return places;
}

}  // namespace trireme::chat
