#pragma once
// `trireme tokenizer chat`: what a model reads and learns of conversations.

#include <cstdint>
#include <string>

#include "cli/data/chat_flags.h"
#include "cli/data/tokenizer_flags.h"

namespace trireme {

struct TokenizerChatFlags {
  std::string tokenizer, file;
  TokenizerFlags load;
  ChatTemplateFlags format;
  ConversationFlags rows;
  chat::LossOn loss_on = chat::LossOn::assistant;
  uint64_t first = 1, most = 1;
  bool jsonl = false;
};

void add_tokenizer_chat(Flags& command, TokenizerChatFlags& flags);
void run_tokenizer_chat(const TokenizerChatFlags& flags);

}  // namespace trireme
