#include "cli/data/chat_flags.h"

#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "hub/place.h"
#include "text/chat/conversation.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// NAME=VALUE.
std::pair<std::string, std::string> assignment(const std::string& flag, const std::string& given) {
  const size_t sign = given.find('=');
  require(sign != std::string::npos && sign > 0 && sign + 1 < given.size(), ErrorKind::usage,
          "{} {}: expected NAME=VALUE", flag, given);
  return {given.substr(0, sign), given.substr(sign + 1)};
}

std::map<std::string, std::string> assignments(const std::string& flag, const std::vector<std::string>& given) {
  std::map<std::string, std::string> made;
  for (const std::string& one : given) {
    const auto [name, value] = assignment(flag, one);
    require(made.emplace(name, value).second, ErrorKind::usage, "{} {}: \"{}\" is given twice", flag, one, name);
  }
  return made;
}

}  // namespace

void add_chat_template_flags(Flags& command, ChatTemplateFlags& flags) {
  command.add("--chat-template", flags.name,
              "template file, or the name of one of the model's templates; without it the model's usual one");
  command
      .add("--template-option", flags.keywords,
           "NAME=VALUE for the template, such as enable_thinking=false; VALUE is JSON or a string; may be repeated")
      .one_value();
}

chat::ChatFormat chat_format(const chat::ChatFiles& files, const ChatTemplateFlags& flags, bool tools) {
  return {files, chat::open_template(files, flags.name, tools)};
}

void add_keywords(chat::Conversation& conversation, const ChatTemplateFlags& flags) {
  for (const auto& [name, value] : assignments("--template-option", flags.keywords)) {
    const Json parsed = Json::parse(value, nullptr, false);
    conversation.keywords[name] = parsed.is_discarded() ? Json(value) : parsed;
  }
}

void add_conversation_flags(Flags& command, ConversationFlags& flags) {
  command
      .add("--column", flags.columns,
           "USUAL=NAME: the file's name of messages, role, content, system, tools, prompt, completion, chosen, "
           "rejected, instruction, input, output or history; may be repeated")
      .one_value();
  command.add("--role", flags.roles, "WORD=ROLE: the file's word for system, user, assistant or tool; may be repeated")
      .one_value();
  command.add_switch("--skip-bad-rows", flags.skips, "skip and count rows without a usable conversation");
}

chat::ConversationColumns conversation_columns(const ConversationFlags& flags) {
  chat::ConversationColumns columns{assignments("--column", flags.columns), assignments("--role", flags.roles)};
  check_columns(columns);
  return columns;
}

chat::ChatFiles chat_files_beside(const std::string& tokenizer) {
  const fs::path path = hub::place_of_tokenizer(tokenizer).path;
  const fs::path beside = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string folder = (fs::is_directory(path) ? path : beside).string();
  if (!fs::exists(folder + "/manifest.json")) return chat::read_chat_files(folder);
  const std::string kept = open_checkpoint(folder).facts.generation;
  return chat::chat_files_of(kept_tokenizer_files(kept, folder), folder);
}

}  // namespace trireme
