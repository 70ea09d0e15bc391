#include "text/chat/turn_end.h"

#include <gtest/gtest.h>

namespace trireme::chat {
namespace {

/// Single characters, <end>, <s> and a <turn> that is not special.
std::unique_ptr<Tokenizer> tokenizer() {
  std::string vocabulary;
  for (char c = ' '; c <= '~'; ++c) {
    const std::string text = c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
    vocabulary += (vocabulary.empty() ? "\"" : ", \"") + text + "\": " + std::to_string(c - ' ');
  }
  return tokenizer_from_json(R"({"version": "1.0", "added_tokens": [
    {"id": 100, "content": "<end>", "special": true}, {"id": 101, "content": "<s>", "special": true},
    {"id": 102, "content": "<turn>", "special": false}], "model": {"type": "BPE", "vocab": {)" +
                                 vocabulary + R"(, "\n": 99}, "merges": []}})",
                             "test");
}

std::optional<TokenId> end_with(const std::string& text) {
  const ChatFiles files{.where = "test", .templates = {{"default", {text, "test"}}}, .tokens = {{"eos_token", "<s>"}}};
  return end_of_turn(ChatFormat(files, "", false), *tokenizer());
}

TEST(EndOfTurn, IsWhatTheTemplateWritesAfterAnAnswer) {
  EXPECT_EQ(end_with("{% for m in messages %}{{ m.role + m.content + '<end>\n' }}{% endfor %}"), TokenId{100});
  EXPECT_EQ(end_with("{% for m in messages %}{{ m.role + m.content + ' ' + eos_token }}{% endfor %}"), TokenId{101});
  EXPECT_EQ(end_with("{% for m in messages %}{{ m.role + m.content + '<turn><end>' }}{% endfor %}"), TokenId{102});
}

TEST(EndOfTurn, IsMissingWhereTheTemplateWritesNone) {
  EXPECT_EQ(end_with("{% for m in messages %}{{ '<s>' + m.role + m.content }}{% endfor %}"), std::nullopt);
  EXPECT_EQ(end_with("{% for m in messages %}{{ m.content + '.<end>' }}{% endfor %}"), std::nullopt);
  EXPECT_EQ(end_with("{{ messages[0].content + '<end>' }}"), std::nullopt);
  EXPECT_EQ(end_with("{{ raise_exception('a system message is missing') }}"), std::nullopt);
}

}  // namespace
}  // namespace trireme::chat
