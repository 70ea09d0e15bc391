#include "cli/sample/talk.h"

#include <algorithm>

#include "checkpoint/huggingface/generation_settings.h"
#include "cli/data/chat_flags.h"
#include "text/chat/conversation.h"
#include "text/chat/turn_end.h"

namespace trireme {
namespace {

chat::ChatFiles files_of(const ModelFolder& folder, const SampleOptions& options) {
  if (!options.tokenizer.empty()) return chat_files_beside(options.tokenizer);
  if (!options.adapter.empty()) {
    chat::ChatFiles trained_with = chat::read_chat_files(options.adapter);
    if (!trained_with.templates.empty()) return trained_with;
  }
  return chat::chat_files_of(kept_tokenizer_files(folder.generation, folder.path), folder.path);
}

}  // namespace

Talk::Talk(const ModelFolder& folder, const SampleOptions& options)
    : options_(options), files_(files_of(folder, options)), format_(chat_format(files_, options.format, false)) {
  begin();
}

Talk::~Talk() = default;

void Talk::begin() {
  conversation_ = std::make_unique<chat::Conversation>();
  add_keywords(*conversation_, options_.format);
  if (!options_.system.empty()) conversation_->messages.push_back({{"role", "system"}, {"content", options_.system}});
}

std::vector<TokenId> Talk::take(const chat::Conversation& conversation, const Tokenizer& tokenizer) {
  begin();
  const bool has_system = !conversation.messages.empty() && conversation.messages[0].value("role", "") == "system";
  if (has_system) conversation_->messages.clear();
  for (const Json& message : conversation.messages) conversation_->messages.push_back(message);
  conversation_->tools = conversation.tools;
  conversation_->keywords.update(conversation.keywords);
  return format_.prompt_ids(*conversation_, tokenizer);
}

std::vector<TokenId> Talk::ask(const std::string& text, const Tokenizer& tokenizer) {
  conversation_->messages.push_back({{"role", "user"}, {"content", text}});
  return format_.prompt_ids(*conversation_, tokenizer);
}

void Talk::answered(const std::string& text) {
  conversation_->messages.push_back({{"role", "assistant"}, {"content", text}});
}

void Talk::stop_at_end(const Tokenizer& tokenizer, GenerateOptions& generate) const {
  std::vector<TokenId> ends = generate.stop_at.ids();
  const auto add = [&](std::optional<TokenId> id) {
    if (id && std::ranges::find(ends, *id) == ends.end()) ends.push_back(*id);
  };
  if (const auto token = files_.tokens.find("eos_token"); token != files_.tokens.end())
    add(tokenizer.token_to_id(token->second));
  add(chat::end_of_turn(format_, tokenizer));
  generate.stop_at = std::move(ends);
}

}  // namespace trireme
