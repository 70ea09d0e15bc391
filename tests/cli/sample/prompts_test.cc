#include "cli/sample/options.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "text/chat/conversation.h"

namespace trireme {
namespace {

TEST(Prompts, OfAFileThatIsNoTextAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "prompt.txt";
  write_text(path, std::string("HOME=/root\0SECRET=x\0", 20));  // as /proc/self/environ
  EXPECT_ERROR(read_start("FILE:" + path), ErrorKind::data, "byte 10 is NUL, which no text has: expected a text file");
  EXPECT_ERROR(read_prompts(path), ErrorKind::data, "byte 10 is NUL");
  EXPECT_EQ(read_start("FILE:" + path, {.name = "", .judges = false}).size(), 20u);
  EXPECT_ERROR(read_start("FILE:/proc/self/environ"), ErrorKind::data, "is NUL, which no text has");
  write_text(path, "Once upon a time\n");
  EXPECT_EQ(read_start("FILE:" + path), "Once upon a time\n");
}

TEST(Prompts, OfConversationsAreTheirLastQuestions) {
  const TemporaryFolder folder;
  const std::string path = folder / "chats.jsonl";
  write_text(path,
             R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
             {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})");
  std::string text = read_text(path);
  std::erase(text, '\n');
  write_text(path, text + "\n" + R"({"conversations": [{"from": "human", "value": "q"}]})" + "\n");
  const std::vector<chat::Conversation> questions = read_questions(path);
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(questions[0].messages.size(), 3U);
  EXPECT_EQ(questions[0].messages.back().at("content"), Json("c"));
  EXPECT_EQ(questions[1].messages, Json::array({{{"role", "user"}, {"content", "q"}}}));
  for (const char* other : {"\"a text\"\n", "{\"prompt\": \"x\"}\n", "{\"prompt\": \"x\", \"completion\": \"y\"}\n"}) {
    write_text(path, other);
    EXPECT_TRUE(read_questions(path).empty()) << other;
  }
  write_text(path, R"({"messages": [{"role": "assistant", "content": "b"}]})");
  EXPECT_ERROR(read_questions(path), ErrorKind::data, "chats.jsonl row 1 has no question");
}

}  // namespace
}  // namespace trireme
