#include "text/chat/said.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace trireme::chat {
namespace {

constexpr size_t kTriedWords = 4;
constexpr size_t kShortWord = 3;  // bytes; longer ones may be found within a word, as what is put beside them
constexpr std::string_view kEndOfReasoning = "</think>";

bool is_in_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x80 || (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z');
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

/// The longest words of a text; if it has none, the text without the white space around it.
std::vector<std::string_view> longest_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_in_word(text[end])) ++end;
    if (end > at) words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  if (words.empty()) {
    const size_t first = text.find_first_not_of(" \t\r\n");
    return {text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first)};
  }
  const size_t tried = std::min(words.size(), kTriedWords);
  std::ranges::partial_sort(words, words.begin() + static_cast<ptrdiff_t>(tried), std::ranges::greater{},
                            [](std::string_view word) { return word.size(); });
  words.resize(tried);
  return words;
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    const bool begins = at == 0 || !is_in_word(text[at - 1]) || !is_in_word(word.front());
    const size_t end = at + word.size();
    const bool ends = end == text.size() || !is_in_word(text[end]) || !is_in_word(word.back());
    if (word.size() > kShortWord || (begins && ends)) return true;
  }
  return false;
}

bool has_content(std::string_view content, std::string_view text) {
  const size_t reasoned = content.rfind(kEndOfReasoning);
  if (reasoned != std::string_view::npos && !is_blank(content.substr(reasoned + kEndOfReasoning.size())))
    content.remove_prefix(reasoned + kEndOfReasoning.size());
  if (is_blank(content)) return true;
  return std::ranges::any_of(longest_words(content), [&](std::string_view word) { return has_word(text, word); });
}

/// The name of a call's function; empty: it has none.
std::string function_name(const Json& call) {
  if (!call.is_object()) return "";
  const auto function = call.find("function");
  const Json& named = function != call.end() && function->is_object() ? *function : call;
  const auto name = named.find("name");
  return name != named.end() && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace

std::string content_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  if (!content.is_array()) return text;
  for (const Json& part : content) {
    if (part.is_object() && part.contains("text") && part.at("text").is_string())
      text += part.at("text").get<std::string>();
  }
  return text;
}

std::string missing_of(const Json& message, std::string_view text) {
  const auto content = message.find("content");
  if (content != message.end() && !has_content(content_text(*content), text)) return "content";
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return "";
  for (const Json& call : *calls) {
    const std::string name = function_name(call);
    if (text.find(name) == std::string_view::npos) return fmt::format("call of {}", name);
  }
  return "";
}

}  // namespace trireme::chat
