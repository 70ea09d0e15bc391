#include "data/chat/traps.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/chat_format.h"
#include "text/chat/conversation.h"
#include "text/chat/said.h"

namespace trireme::chat {
namespace {

constexpr size_t kShortPrompt = 12;  // bytes; an answer may begin with a word that is a prompt

bool has_null(const Json& value) {
  if (value.is_null()) return true;
  return value.is_structured() && std::ranges::any_of(value, has_null);
}

void find_in_arguments(const Json& message, std::set<std::string>& traps) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (const Json& call : *calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    const Json& named = call.is_object() && function != call.end() ? *function : call;
    const auto arguments = named.is_object() ? named.find("arguments") : named.end();
    if (!named.is_object() || arguments == named.end()) continue;
    if (arguments->is_string())
      traps.insert(
          "the arguments of tool calls are JSON as text, which templates that write JSON encode a second time; store "
          "them as objects");
    if (arguments->is_structured() && has_null(*arguments))
      traps.insert(
          "the arguments of tool calls have nulls, which tables (Parquet, datasets) add where calls differ in their "
          "arguments, and which are trained on; remove them");
  }
}

}  // namespace

std::set<std::string> traps_of(const Conversation& conversation) {
  std::set<std::string> traps;
  for (const Json& message : conversation.messages) find_in_arguments(message, traps);
  const size_t at = conversation.prompt;
  if (at == 0 || at >= conversation.messages.size()) return traps;
  const auto text = [&](size_t i) {
    const auto content = conversation.messages[i].find("content");
    return content == conversation.messages[i].end() ? std::string() : content_text(*content);
  };
  const std::string asked = text(at - 1);
  if (asked.size() >= kShortPrompt && text(at).starts_with(asked))
    traps.insert("the answer begins with the text of the prompt, so it is trained on to repeat it; remove it there");
  return traps;
}

std::set<std::string> traps_of(const Conversation& conversation, const ChatFormat& format, const ChatTokens& tokens) {
  std::set<std::string> traps = traps_of(conversation);
  if (!tokens.ends)
    traps.insert(
        "no special token ends what the assistant says, so the model does not learn to stop; let the template write "
        "one, such as {{ eos_token }}, behind the assistant's words, within {% generation %} if it has that "
        "(--chat-template FILE)");
  for (const std::string& role : tokens.left_out)
    traps.insert(fmt::format("the template leaves out what a message of the role \"{}\" says", role));
  const bool developer = std::ranges::any_of(
      conversation.messages, [](const Json& message) { return message.value("role", "") == "developer"; });
  if (developer && format.renames_developer())
    traps.insert("the role \"developer\" is written as \"system\", because the template does not know it");
  return traps;
}

}  // namespace trireme::chat
