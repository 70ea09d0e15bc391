#include "text/chat/training_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/expect_error.h"
#include "tests/text/chat/published_templates.h"
#include "text/chat/conversation.h"
#include "text/tokenizer.h"

namespace trireme::chat {
namespace {

std::unique_ptr<Tokenizer> words() {
  return tokenizer_from_json(
      R"({"version": "1.0", "added_tokens": [{"id": 1, "content": "<|end|>", "single_word": false, "lstrip": false,
      "rstrip": true, "normalized": false, "special": true}], "pre_tokenizer": {"type": "Whitespace"},
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}})",
      "words");
}

ChatFiles files() { return {.where = "m", .templates = {}, .tokens = {{"eos_token", "<|endoftext|>"}}}; }

Conversation two_turns() {
  Conversation made;
  for (const auto& [role, content] :
       {std::pair("user", "the cat?"), {"assistant", "sat"}, {"user", "and the dog?"}, {"assistant", "ran"}})
    made.messages.push_back({{"role", role}, {"content", content}});
  return made;
}

std::vector<std::string> counted(const ChatTokens& tokens) {
  std::vector<std::string> made;
  for (const TextSpan& span : tokens.counted) made.push_back(tokens.text.substr(span.begin, span.end - span.begin));
  return made;
}

TEST(TrainingVersion, TrainsEveryTurnOfAPublishedTemplateThatRewritesThem) {
  const TemplateSource source{std::string(kPhi3) + "\n", "t.jinja"};  // the file may end with a line break
  const ChatFormat published(files(), source);
  EXPECT_ERROR(published.tokens(two_turns(), *words(), LossOn::assistant), ErrorKind::data,
               "the template writes earlier turns in another way than the last one");
  const TrainingFormat format(files(), source);
  EXPECT_THAT(format.note(), testing::StartsWith("t.jinja is the published template of Phi-3: "));
  const ChatTokens tokens = format.tokens(two_turns(), *words(), LossOn::assistant);
  EXPECT_EQ(tokens.text, published.render(two_turns(), 4, false).text);
  EXPECT_THAT(counted(tokens), testing::ElementsAre("sat<|end|>\n", "ran<|end|>\n", "<|endoftext|>"));
}

TEST(TrainingVersion, LeavesRowsWithAPromptToThePublishedTemplate) {
  const TrainingFormat format(files(), {kPhi3, "t.jinja"});
  Conversation conversation = two_turns();
  conversation.prompt = 3;
  EXPECT_THAT(counted(format.tokens(conversation, *words(), LossOn::assistant)),
              testing::ElementsAre("ran<|end|>\n<|endoftext|>"));
  EXPECT_THAT(counted(format.tokens(two_turns(), *words(), LossOn::last)),
              testing::ElementsAre("ran<|end|>\n<|endoftext|>"));
}

TEST(TrainingVersion, ChangesNoOtherTemplate) {
  EXPECT_FALSE(training_version({std::string(kPhi3) + "{# mine #}", "t"}).has_value());
  const TrainingFormat own(files(), {"{% for m in messages %}{{ m.content }}{% endfor %}", "t"});
  EXPECT_EQ(own.note(), "");
}

}  // namespace
}  // namespace trireme::chat
