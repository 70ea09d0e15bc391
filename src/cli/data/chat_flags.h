#pragma once
// The flags of commands that read conversations or use a chat template.

#include <string>
#include <vector>

#include "cli/flags.h"
#include "data/chat/conversation_rows.h"
#include "text/chat/chat_format.h"

namespace trireme {

struct ChatTemplateFlags {
  std::string name;                   ///< --chat-template: a file, or a name of one of the model's; empty: the model's
  std::vector<std::string> keywords;  ///< --template-option: NAME=VALUE
};
void add_chat_template_flags(Flags& command, ChatTemplateFlags& flags);

/// `files`: those of the model. Throws Error::io, Error::data.
chat::ChatFormat chat_format(const chat::ChatFiles& files, const ChatTemplateFlags& flags, bool tools);
/// Adds --template-option to the variables of the template. Throws Error::usage.
void add_keywords(chat::Conversation& conversation, const ChatTemplateFlags& flags);

struct ConversationFlags {
  std::vector<std::string> columns, roles;  ///< USUAL=NAME, WORD=ROLE
  bool skips = false;
};
void add_conversation_flags(Flags& command, ConversationFlags& flags);
/// Throws Error::usage.
chat::ConversationColumns conversation_columns(const ConversationFlags& flags);

/// The chat templates and special tokens beside a tokenizer that was given as a path or a name of the hub; of a run
/// those that it keeps. Throws Error::io, Error::data.
chat::ChatFiles chat_files_beside(const std::string& tokenizer);

}  // namespace trireme
