#include "data/chat/traps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat/conversation.h"

namespace trireme::chat {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;

Conversation calling(const Json& arguments) {
  Conversation made;
  made.messages = {
      {{"role", "user"}, {"content", "w?"}},
      {{"role", "assistant"}, {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", arguments}}}}}}}};
  return made;
}

TEST(Traps, AreArgumentsOfCallsAsTextOrWithNulls) {
  EXPECT_THAT(traps_of(calling({{"x", 1}})), IsEmpty());
  EXPECT_THAT(traps_of(calling("{}")), ElementsAre(StartsWith("the arguments of tool calls are JSON as text")));
  EXPECT_THAT(traps_of(calling({{"x", {1, {{"y", nullptr}}}}})),
              ElementsAre(StartsWith("the arguments of tool calls have nulls")));
}

TEST(Traps, AreAnswersThatRepeatThePrompt) {
  Conversation made;
  made.messages = {{{"role", "user"}, {"content", "Where is Rome?"}},
                   {{"role", "assistant"}, {"content", "Where is Rome? In Italy."}}};
  EXPECT_THAT(traps_of(made), IsEmpty()) << "a conversation without a prompt may say so";
  made.prompt = 1;
  EXPECT_THAT(traps_of(made), ElementsAre(StartsWith("the answer begins with the text of the prompt")));
  made.messages[1]["content"] = "In Italy.";
  EXPECT_THAT(traps_of(made), IsEmpty());
}

}  // namespace
}  // namespace trireme::chat
