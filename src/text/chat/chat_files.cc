#include "text/chat/chat_files.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace trireme::chat {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolder = "additional_chat_templates";
constexpr size_t kMostBytes = size_t{16} << 20;  // Gemma 3's tokenizer_config.json has 1.2 MB

/// A token as these files write it: a text, or an object with its "content".
std::optional<std::string> token_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value.at("content").is_string())
    return value.at("content").get<std::string>();
  return std::nullopt;
}

void take_tokens(const Json& config, const std::string& where, std::map<std::string, std::string>& tokens) {
  static constexpr const char* kNames[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                           "pad_token", "cls_token", "mask_token"};
  const auto take = [&](const std::string& name, const Json& value) {
    if (value.is_null()) return;
    const auto text = token_text(value);
    require(text.has_value(), ErrorKind::data,
            "{}: \"{}\" is not a token: expected a string, or an object with \"content\"", where, name);
    tokens.try_emplace(name, *text);
  };
  for (const char* name : kNames) {
    if (config.contains(name)) take(name, config.at(name));
  }
  const auto extra = config.find("extra_special_tokens");
  if (extra == config.end() || !extra->is_object()) return;
  for (const auto& [name, value] : extra->items()) take(name, value);
}

/// A template, or a list of {"name", "template"}.
void take_templates(const Json& value, const std::string& where, ChatFiles& files) {
  if (value.is_null()) return;
  if (value.is_string()) {
    files.templates.try_emplace("default", TemplateSource{value.get<std::string>(), where + " chat_template"});
    return;
  }
  const auto text = [&](const Json& entry, const char* key) {
    const bool good = entry.is_object() && entry.contains(key) && entry.at(key).is_string();
    require(good, ErrorKind::data, "{}: an entry of \"chat_template\" lacks the string \"{}\"", where, key);
    return entry.at(key).get<std::string>();
  };
  require(value.is_array(), ErrorKind::data, "{}: \"chat_template\" is neither a string nor a list of templates",
          where);
  for (const Json& entry : value) {
    const std::string name = text(entry, "name");
    files.templates.try_emplace(
        name, TemplateSource{text(entry, "template"), fmt::format("{} chat_template \"{}\"", where, name)});
  }
}

}  // namespace

ChatFiles chat_files_of(const std::map<std::string, std::string>& texts, const std::string& where) {
  ChatFiles files{.where = where};
  for (const auto& [name, text] : texts) {
    const fs::path path = name;
    const std::string place = where + "/" + name;
    if (path.extension() != ".jinja") continue;
    files.templates.emplace(path.has_parent_path() ? path.stem().string() : "default", TemplateSource{text, place});
  }
  for (const char* name : {"tokenizer_config.json", "chat_template.json", "special_tokens_map.json"}) {
    const auto text = texts.find(name);
    if (text == texts.end()) continue;
    const std::string place = where + "/" + name;
    const Json config = parse_json(text->second, place);
    require(config.is_object(), ErrorKind::data, "{} is not a JSON object", place);
    if (config.contains("chat_template")) take_templates(config.at("chat_template"), place, files);
    take_tokens(config, place, files.tokens);
  }
  return files;
}

ChatFiles read_chat_files(const std::string& folder) {
  std::vector<std::string> names = {"tokenizer_config.json", "chat_template.json", "special_tokens_map.json",
                                    "chat_template.jinja"};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(fs::path(folder) / kFolder, none)) {
    if (entry.path().extension() == ".jinja") names.push_back(kFolder + ("/" + entry.path().filename().string()));
  }
  std::map<std::string, std::string> texts;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (!fs::exists(path)) continue;
    const MappedFile file(path);
    require(file.bytes().size() <= kMostBytes, ErrorKind::data, "{} has {} bytes, the limit is {}", path,
            file.bytes().size(), kMostBytes);
    texts[name] = std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  }
  return chat_files_of(texts, folder);
}

const TemplateSource& find_template(const ChatFiles& files, const std::string& name, bool tools) {
  const std::string wanted = name.empty() ? "" : fmt::format(", and \"{}\" is not a file", name);
  require(!files.templates.empty(), ErrorKind::io,
          "{} has no chat template: neither chat_template.jinja nor \"chat_template\" in tokenizer_config.json{}; give "
          "one with --chat-template FILE",
          files.where, wanted);
  auto found = files.templates.find(name.empty() ? "default" : name);
  if (name.empty() && tools && files.templates.contains("tool_use")) found = files.templates.find("tool_use");
  std::vector<std::string> names;
  for (const auto& [known, source] : files.templates) names.push_back(known);
  require(found != files.templates.end(), ErrorKind::io,
          "{} has no chat template \"{}\"; it has {}; select one with --chat-template NAME", files.where,
          name.empty() ? "default" : name, fmt::join(names, ", "));
  return found->second;
}

TemplateSource open_template(const ChatFiles& files, const std::string& given, bool tools) {
  if (!given.empty() && fs::is_regular_file(given)) return {read_text(given, kMostBytes), given};
  return find_template(files, given, tools);
}

}  // namespace trireme::chat
