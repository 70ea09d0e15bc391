#include "cli/sample/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/chat/conversation_rows.h"
#include "data/chat/rows.h"
#include "data/file_signature.h"
#include "text/chat/conversation.h"
#include "text/text_encoding.h"

namespace trireme {
namespace {

constexpr std::string_view kFile = "FILE:";
constexpr size_t kMostBytes = size_t{1} << 30;  // prompts, not a corpus

std::string prompt_of(std::string_view line, const std::string& where) {
  const Json value = parse_json(line, where);
  if (value.is_string()) return value.get<std::string>();
  require(value.is_object(), ErrorKind::data, "{}: {}, expected a text or an object with \"prompt\"", where,
          value.type_name());
  for (const char* key : {"prompt", "text", "context"}) {
    const auto found = value.find(key);
    if (found == value.end()) continue;
    require(found->is_string(), ErrorKind::data, "{}: \"{}\" is {}, expected text", where, key, found->type_name());
    return found->get<std::string>();
  }
  fail(ErrorKind::data, "{}: \"prompt\", \"text\" and \"context\" are missing; one of them must contain the prompt",
       where);
}

std::string read_prompt_file(const std::string& path, const InputEncoding& encoding) {
  std::string text = read_text(path, kMostBytes);
  if (encoding.judges) require_text(text, path);
  text = as_utf8(std::move(text), encoding.name, encoding.judges, path);
  const size_t nul = encoding.judges ? text.find('\0') : std::string::npos;
  require(nul == std::string::npos, ErrorKind::data,
          "{}: byte {} is NUL, which no text has: expected a text file; --encoding utf-8 uses the bytes unchanged",
          path, nul);
  return text;
}

}  // namespace

std::vector<std::string> read_prompts(const std::string& path, const InputEncoding& encoding) {
  const std::string text = read_prompt_file(path, encoding);
  const bool json = path.ends_with(".jsonl");
  std::vector<std::string> prompts;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    prompts.push_back(json ? prompt_of(line, fmt::format("{} line {}", path, number)) : std::string(line));
  }
  require(!prompts.empty(), ErrorKind::data, "{} has no prompt; expected one line of text per prompt", path);
  return prompts;
}

std::vector<chat::Conversation> read_questions(const std::string& path) {
  std::vector<chat::Conversation> questions;
  bool known = true;
  const auto take = [&](uint64_t row, const Json& object) {
    const char* const column = object.contains("messages") ? "messages" : "conversations";
    const auto messages = object.find(column);
    known = messages != object.end() && messages->is_array();
    if (!known && questions.empty()) return false;
    require(known, ErrorKind::data, "{} row {} has no list of messages, but earlier rows have one", path, row);
    // A row for training ends with an answer.
    Json with_answer = object;
    with_answer[column].push_back({{"role", "assistant"}, {"content", "."}});
    chat::Conversation made;
    try {
      made = chat::conversations_of(with_answer, {}).front();
    } catch (const Error& error) {
      fail(ErrorKind::data, "{} row {}: {}", path, row, error.what());
    }
    while (!made.messages.empty() && made.messages.back().value("role", "") == "assistant")
      made.messages.erase(made.messages.size() - 1);
    require(!made.messages.empty(), ErrorKind::data, "{} row {} has no question", path, row);
    questions.push_back(std::move(made));
    return true;
  };
  chat::read_rows(path, {.row = take, .fault = [](uint64_t, const std::string&) { return false; }});
  return questions;
}

std::string read_start(const std::string& start, const InputEncoding& encoding) {
  if (!start.starts_with(kFile)) return start;
  const std::string path = start.substr(kFile.size());
  return read_prompt_file(path, encoding);
}

}  // namespace trireme
