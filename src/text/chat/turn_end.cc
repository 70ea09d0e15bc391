#include "text/chat/turn_end.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "text/chat/conversation.h"
#include "text/chat/python_text.h"

namespace trireme::chat {

bool is_marker(const Tokenizer& tokenizer, TokenId id) {
  if (!tokenizer.has_token(id)) return false;
  const std::string text = tokenizer.decode({{id}});
  if (text.empty()) return false;
  if (tokenizer.decode({{id}}, true).empty()) return true;
  // Added tokens need not be special, but a piece of words is not in brackets.
  const bool bracketed =
      (text.starts_with('<') && text.ends_with('>')) || (text.starts_with('[') && text.ends_with(']'));
  std::vector<TokenId> again;
  tokenizer.encode_chat(text, again);
  return bracketed && text.size() > 2 && again == std::vector<TokenId>{id};
}

std::optional<TokenId> end_of_turn(const ChatFormat& format, const Tokenizer& tokenizer) {
  constexpr const char* kSaid = "trireme";
  Conversation conversation;
  conversation.messages =
      Json::array({Json{{"role", "user"}, {"content", "?"}}, Json{{"role", "assistant"}, {"content", kSaid}}});
  std::string text;
  try {
    text = format.render(conversation, conversation.messages.size(), false).text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::data) throw;
    return std::nullopt;
  }
  const size_t at = text.rfind(kSaid);
  if (at == std::string::npos) return std::nullopt;
  const std::string_view after =
      strip(std::string_view(text).substr(at + std::string_view(kSaid).size()), std::nullopt);
  std::vector<TokenId> ids;
  tokenizer.encode_chat(after, ids);
  if (ids.empty() || !is_marker(tokenizer, ids.front())) return std::nullopt;
  return ids.front();
}

}  // namespace trireme::chat
