#pragma once
// A conversation as text, ids and mask: what a model reads, and what it learns.

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "text/chat/chat_files.h"
#include "text/chat/chat_template.h"
#include "text/chat/loss_on.h"
#include "text/tokenizer.h"

namespace trireme::chat {

struct Conversation;

struct ChatTokens {
  std::string text;
  std::vector<TextSpan> counted;  ///< of the text
  std::vector<TokenId> ids;
  std::vector<uint8_t> mask;  ///< 1: the id counts in the loss, [ids]
  /// Whether the last counted id is a special token, by which the model learns to stop.
  bool ends = true;
  /// Roles of messages that do not count of which the template does not write something, or that call tools and of
  /// which it writes the calls only.
  std::set<std::string> left_out;
};

/// Messages as templates get them: members without a value dropped, a model's reasoning under each of its usual names
/// (reasoning_content, thinking), as transformers does.
Json template_messages(const Json& messages);

/// A text without roles, with the tokens that begin and end a text, all of which counts. eos_token: empty: the
/// tokenizer's own end.
ChatTokens text_tokens(const std::string& text, const std::string& eos_token, const Tokenizer& tokenizer);

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
  /// Throws Error::data if no id counts in the loss, if the template raises, if it does not write what the assistant
  /// says in a turn that counts, or if it does not show where the assistant's turns are: it has no {% generation %} and
  /// the text of the first messages is not a prefix of the text of all.
  ChatTokens tokens(const Conversation& conversation, const Tokenizer& tokenizer, LossOn loss_on) const;

  void set_time(const std::tm& now) { now_ = now; }
  /// The template does not write messages of the role "developer", so they get the role "system".
  bool renames_developer() const { return renames_developer_; }

 private:
  /// What counts of a message.
  struct Turn {
    size_t message;
    TextSpan span;
  };

  /// How the template reads a content.
  enum class Content : uint8_t { any, text, parts };

  void probe();
  /// What the template writes of messages; nothing where it raises.
  std::string probed(const Json& messages) const;
  Rendered render_messages(Json messages, const Conversation& conversation, bool prompts) const;
  /// The messages of which something counts.
  std::vector<size_t> counted_messages(const Conversation& conversation, LossOn loss_on) const;
  std::vector<Turn> counted_turns(const Conversation& conversation, const Rendered& whole, LossOn loss_on) const;
  /// The text in front of what the assistant says in a message.
  std::string text_before(const Conversation& conversation, size_t message, const std::string& whole) const;
  std::vector<Turn> turns_by_prefix(const Conversation& conversation, const std::string& whole,
                                    const std::vector<size_t>& counted) const;
  std::vector<Turn> marked_turns(const Conversation& conversation, const Rendered& whole,
                                 const std::vector<size_t>& counted, LossOn loss_on) const;
  void check_said(const Conversation& conversation, const std::vector<size_t>& counted, const std::vector<Turn>& turns,
                  ChatTokens& made) const;
  [[noreturn]] void fail_unsaid(const std::string& missing, size_t message) const;

  ChatTemplate template_;
  Content content_ = Content::any;
  bool renames_developer_ = false;
  std::map<std::string, std::string> tokens_;
  std::optional<std::tm> now_;
};

}  // namespace trireme::chat
