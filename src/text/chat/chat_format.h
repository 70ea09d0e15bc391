#pragma once
// A conversation as text, ids and mask: what a model reads, and what it learns.

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/loss_on.h"
#include "text/chat/chat_files.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace trireme::chat {

struct Conversation;

struct ChatTokens {
  std::string text;
  std::vector<Span> counted;  ///< of the text
  std::vector<TokenId> ids;
  std::vector<uint8_t> mask;  ///< 1: the id counts in the loss, [ids]
};

/// Messages as templates get them: members without a value dropped, a model's reasoning under each of its usual names
/// (reasoning_content, thinking), as transformers does.
Json template_messages(const Json& messages);

class ChatFormat {
 public:
  /// The template of that name (find_template()) and the special tokens of `files`. Throws Error::data.
  ChatFormat(const ChatFiles& files, const std::string& name, bool tools);
  /// A template of the user's own, with the special tokens of `files`.
  ChatFormat(const ChatFiles& files, const TemplateSource& source);

  /// The text of the first `messages` messages; with the beginning of an answer if `prompts`. Throws Error::data.
  Rendered render(const Conversation& conversation, size_t messages, bool prompts) const;
  /// The ids after which a model answers.
  std::vector<TokenId> prompt_ids(const Conversation& conversation, const Tokenizer& tokenizer) const;
  /// Throws Error::data if no id counts in the loss, if the template raises, or if it does not show where the
  /// assistant's turns are: it has no {% generation %} and the text of the first messages is not a prefix of the text
  /// of all.
  ChatTokens tokens(const Conversation& conversation, const Tokenizer& tokenizer, LossOn loss_on) const;

  void set_time(const std::tm& now) { now_ = now; }

 private:
  std::vector<Span> counted_spans(const Conversation& conversation, const Rendered& whole, LossOn loss_on) const;
  std::vector<Span> spans_by_prefix(const Conversation& conversation, const std::string& whole, LossOn loss_on) const;

  ChatTemplate template_;
  std::map<std::string, std::string> tokens_;
  std::optional<std::tm> now_;
};

/// Where each id's bytes begin and end in `text`, which the ids are of. Throws Error::data for a tokenizer whose ids do
/// not say, as it changes the text.
std::vector<Span> places_of_ids(const Tokenizer& tokenizer, const std::string& text, const std::vector<TokenId>& ids);

}  // namespace trireme::chat
