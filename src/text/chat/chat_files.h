#pragma once
// The chat templates and special tokens beside a model's tokenizer: tokenizer_config.json, special_tokens_map.json,
// chat_template.jinja, chat_template.json, additional_chat_templates/NAME.jinja.

#include <map>
#include <string>

namespace trireme::chat {

struct TemplateSource {
  std::string text;
  std::string where;  ///< the file, for errors
};

struct ChatFiles {
  std::string where;                                     ///< the folder, for errors
  std::map<std::string, TemplateSource> templates = {};  ///< by name; the usual one is "default"
  std::map<std::string, std::string> tokens = {};        ///< special tokens by what templates call them: bos_token
};

/// From the files' texts by name. chat_template.jinja comes before the template in tokenizer_config.json, as in
/// transformers. Throws Error::data for a field of a wrong type.
ChatFiles chat_files_of(const std::map<std::string, std::string>& texts, const std::string& where);

/// From the files in the folder of a tokenizer, of which none has to exist. Throws Error::io, Error::data.
ChatFiles read_chat_files(const std::string& folder);

/// The template that `name` means: empty: "default", or "tool_use" where there are tools and it exists. Throws
/// Error::io naming those that exist.
const TemplateSource& find_template(const ChatFiles& files, const std::string& name, bool tools);

/// A file of that path, else find_template(). Throws Error::io, Error::data.
TemplateSource open_template(const ChatFiles& files, const std::string& given, bool tools);

}  // namespace trireme::chat
