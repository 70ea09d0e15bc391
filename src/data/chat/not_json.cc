#include "data/chat/not_json.h"

#include <cstdint>
#include <utility>

namespace trireme::chat {
namespace {

constexpr std::pair<std::string_view, const char*> kFormats[] = {
    {"\x1f\x8b", "the file is compressed by gzip; let its name end in .gz"},
    {"\x28\xb5\x2f\xfd", "the file is compressed by zstd; let its name end in .zst"},
    {"PAR1", "the file is a Parquet file; let its name end in .parquet"},
    {"PK\x03\x04", "the file is a zip archive; extract it"},
    {"BZh", "the file is compressed by bzip2; decompress it"},
    {"\xfd"
     "7zXZ",
     "the file is compressed by xz; decompress it"},
    {"\xff\xfe", "the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff", "the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"}};

bool is_in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The words outside of strings in double quotes that JSON does not have, or "'" for a string in single quotes.
std::string_view foreign_word(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
      ++at;
    } else if (c == '\'') {
      return "'";
    } else if (is_in_word(c)) {
      size_t end = at;
      while (end < text.size() && is_in_word(text[end])) ++end;
      const std::string_view word = text.substr(at, end - at);
      for (const char* known : {"NaN", "Infinity", "None", "True", "False"}) {
        if (word == known) return known;
      }
      at = end;
    } else {
      ++at;
    }
  }
  return "";
}

}  // namespace

std::string advice_on_json(std::string_view text) {
  for (const auto& [begins, advice] : kFormats) {
    if (text.starts_with(begins)) return std::string("; ") + advice;
  }
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return "";
  text.remove_prefix(first);
  const std::string_view word = foreign_word(text);
  if (word == "NaN" || word == "Infinity") return "; JSON has no " + std::string(word) + "; write null";
  if (!word.empty() && (text[0] == '{' || text[0] == '['))
    return "; it is in Python's notation (" + std::string(word) + "); write it with json.dumps()";
  const bool is_open = text.find_first_not_of(" \t\r\n", 1) == std::string_view::npos;
  if (text[0] == '[')
    return "; the file seems to be one JSON array, while .jsonl has an object per line; let its name end in .json";
  if (text[0] == '{' && is_open) return "; the object goes on in the next line, while .jsonl has an object per line";
  return "";
}

}  // namespace trireme::chat
