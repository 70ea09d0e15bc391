#include "data/chat/conversation_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "data/chat/rows.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/temporary_folder.h"
#include "text/chat/conversation.h"

namespace trireme::chat {
namespace {

Json said(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

std::vector<Conversation> of(const char* row, const ConversationColumns& columns = {}) {
  return conversations_of(parse_json(row, "row"), columns);
}

std::string fault_of(const char* row, const ConversationColumns& columns = {}) {
  try {
    of(row, columns);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    return error.what();
  }
  return "none";
}

const Json kHello = {said("user", "Hi"), said("assistant", "Hello")};

TEST(Conversations, AreReadFromEveryUsualForm) {
  EXPECT_EQ(
      of(R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]})")[0].messages,
      kHello);
  EXPECT_EQ(
      of(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]})")[0].messages,
      kHello);
  EXPECT_EQ(of(R"({"instruction": "Hi", "input": "", "output": "Hello"})")[0].messages, kHello);
  EXPECT_EQ(of(R"({"instruction": "Hi", "output": "Hello"})")[0].messages, kHello);
  EXPECT_EQ(of(R"({"prompt": "Hi", "completion": "Hello"})")[0].messages, kHello);
  EXPECT_EQ(
      of(R"({"messages": "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Hello\"}]"})")
          [0]
              .messages,
      kHello);
}

TEST(Conversations, KeepSystemInputHistoryAndTools) {
  const auto made = of(R"({"instruction": "Add", "input": "1 2", "output": "3", "system": "Be brief.",
      "history": [["a", "b"]], "tools": "[{\"name\": \"f\"}]"})");
  EXPECT_EQ(made[0].messages, (Json{said("system", "Be brief."), said("user", "a"), said("assistant", "b"),
                                    said("user", "Add\n1 2"), said("assistant", "3")}));
  EXPECT_EQ(made[0].tools, (Json::array({{{"name", "f"}}})));
  EXPECT_EQ(made[0].prompt, 0U);
}

TEST(Conversations, KeepCallsOfTools) {
  const auto made = of(R"({"conversations": [{"from": "human", "value": "w?"},
      {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"},
      {"from": "observation", "value": "sun"}, {"from": "gpt", "value": "Sun."}], "tools": ""})");
  const Json call = {
      {"role", "assistant"},
      {"content", ""},
      {"tool_calls", {{{"type", "function"}, {"function", {{"name", "f"}, {"arguments", {{"x", 1}}}}}}}}};
  EXPECT_EQ(made[0].messages, (Json{said("user", "w?"), call, said("tool", "sun"), said("assistant", "Sun.")}));
  const auto open = of(R"({"messages": [{"role": "user", "content": "w?"}, {"role": "assistant", "content": null,
      "tool_calls": [{"function": {"name": "f"}}], "weight": 1}]})");
  EXPECT_EQ(
      open[0].messages[1],
      (Json{{"role", "assistant"}, {"content", ""}, {"tool_calls", {{{"function", {{"name", "f"}}}}}}, {"weight", 1}}));
}

TEST(Conversations, LearnNothingOfAPrompt) {
  const auto texts = of(R"({"system": "S", "prompt": "Hi", "completion": "Hello"})");
  EXPECT_EQ(texts[0].prompt, 2U);
  const auto turns = of(R"({"prompt": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
      {"role": "user", "content": "c"}], "completion": [{"role": "assistant", "content": "d"}]})");
  EXPECT_EQ(turns[0].prompt, 3U);
  EXPECT_EQ(turns[0].messages.size(), 4U);
}

TEST(Conversations, PairsHaveTheirCommonBeginningAsPrompt) {
  const auto explicit_prompt = of(R"({"prompt": "Hi", "chosen": "Hello", "rejected": "No"})");
  ASSERT_EQ(explicit_prompt.size(), 2U);
  EXPECT_EQ(explicit_prompt[0].messages, kHello);
  EXPECT_EQ(explicit_prompt[1].messages[1], said("assistant", "No"));
  EXPECT_EQ(explicit_prompt[0].prompt, 1U);
  const auto implicit = of(R"({"chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
      "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]})");
  EXPECT_EQ(implicit[0].messages, kHello);
  EXPECT_EQ(implicit[1].prompt, 1U);
  EXPECT_EQ(fault_of(R"({"prompt": "Hi", "chosen": "x", "rejected": "x"})"),
            "\"chosen\" and \"rejected\" do not differ");
}

TEST(Conversations, OfPairsNeedTwoAnswersAfterACommonPrompt) {
  const ConversationColumns pairs{.pairs = true};
  EXPECT_EQ(of(R"({"prompt": "Hi", "chosen": "Hello", "rejected": "No"})", pairs)[0].messages, kHello);
  // As in data sets that repeat the prompt, and have a conversation beside the pair.
  const auto repeated = of(R"({"prompt": "Hi", "messages": [{"role": "user", "content": "Hi"}],
      "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}],
      "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]})",
                           pairs);
  ASSERT_EQ(repeated.size(), 2U);
  EXPECT_EQ(repeated[0].messages, kHello);
  EXPECT_EQ(repeated[1].prompt, 1U);
  const auto answers = of(R"({"prompt": "Hi", "chosen": [{"role": "assistant", "content": "Hello"}],
      "rejected": [{"role": "assistant", "content": "No"}]})",
                          pairs);
  EXPECT_EQ(answers[0].messages, kHello);
  const auto fault = [&](const char* row) { return fault_of(row, pairs); };
  EXPECT_EQ(fault(R"({"messages": [], "chosen": "x"})"),
            "no pair: expected \"chosen\" and \"rejected\", found messages, chosen; name others with --column "
            "chosen=NAME");
  EXPECT_EQ(fault(R"({"prompt": "Hi", "chosen": "x", "rejected": null})"),
            "no pair: expected \"chosen\" and \"rejected\", found prompt, chosen (null: rejected); name others with "
            "--column chosen=NAME");
  EXPECT_EQ(fault(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
      "rejected": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                   {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]})"),
            "\"rejected\" only continues \"chosen\", which ends after their 2 common messages, so there are not two "
            "answers to one prompt");
  EXPECT_EQ(
      fault(R"({"chosen": "x", "rejected": "y"})"),
      "\"prompt\" is missing: \"chosen\" is a text, which does not say what it answers; found chosen, rejected; name "
      "others with --column prompt=NAME");
  EXPECT_EQ(fault(R"({"prompt": "Hi", "chosen": "x", "rejected": "x"})"), "\"chosen\" and \"rejected\" do not differ");
  EXPECT_EQ(
      fault(R"({"chosen": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "x"}],
      "rejected": [{"role": "user", "content": "b"}, {"role": "assistant", "content": "y"}]})"),
      "\"chosen\" and \"rejected\" have no common prompt: their first messages differ; expected \"prompt\" beside "
      "them, or conversations with the same beginning");
}

TEST(Conversations, OfPairsHaveAlpacasQuestionOrTheMessagesBefore) {
  const ConversationColumns pairs{.pairs = true};
  const auto alpaca = of(R"({"instruction": "Add", "input": "1 2", "chosen": "3", "rejected": "4", "system": "S",
      "history": [["a", "b"]]})",
                         pairs);
  EXPECT_EQ(alpaca[0].messages, (Json{said("system", "S"), said("user", "a"), said("assistant", "b"),
                                      said("user", "Add\n1 2"), said("assistant", "3")}));
  EXPECT_EQ(alpaca[1].messages.back(), said("assistant", "4"));
  EXPECT_EQ(alpaca[0].prompt, 4U);
  const auto sharegpt = of(R"({"conversations": [{"from": "human", "value": "Hi"}],
      "chosen": {"from": "gpt", "value": "Hello"}, "rejected": {"from": "gpt", "value": "No"}})",
                           pairs);
  EXPECT_EQ(sharegpt[0].messages, kHello);
  EXPECT_EQ(sharegpt[1].messages.back(), said("assistant", "No"));
}

TEST(Conversations, LeaveATextThatBeginsLikeAListAsItIs) {
  const char* const kRows[] = {
      R"({"prompt": "names in: Ann met Bob", "completion": "[{\"name\": \"Ann\"}]"})",
      R"({"prompt": "[{\"x\": 1}] what is x?", "completion": "1"})",
      R"({"prompt": "show a chat", "completion": "[{\"role\": \"user\", \"content\": \"x\"}]"})",
      R"({"prompt": "[{\"role\": \"user\", \"content\": \"x\"}]", "completion": "1"})",
      R"({"prompt": "[{", "completion": "[{}]"})",
      R"({"prompt": "p", "chosen": "[{\"a\": 1}]", "rejected": "[{\"a\": 2}]"})",
      R"({"prompt": "p", "chosen": "[{\"role\": \"user\", \"content\": \"x\"}]", "rejected": "no"})"};
  for (const char* row : kRows) {
    SCOPED_TRACE(row);
    const Json given = parse_json(row, "row");
    const auto made = of(row);
    ASSERT_EQ(made[0].messages.size(), 2U);
    EXPECT_EQ(made[0].messages[0].at("content"), given.at("prompt"));
    EXPECT_EQ(made[0].messages[1].at("content"), given.at(given.contains("chosen") ? "chosen" : "completion"));
  }
  const auto lists = of(R"({"prompt": "[{\"role\": \"user\", \"content\": \"Hi\"}]",
      "completion": "[{\"role\": \"assistant\", \"content\": \"Hello\"}]"})");
  EXPECT_EQ(lists[0].messages, kHello) << "all columns are lists, as a table keeps them";
}

TEST(Conversations, HaveTurnsThatTheirSwitchesLeaveOut) {
  const auto untrained = [&](const std::string& first, const std::string& second, const std::string& of_user = "") {
    return of((R"({"messages": [{"role": "user", "content": "a")" + of_user +
               R"(}, {"role": "assistant", "content": "b")" + first +
               R"(}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d")" + second + "}]}")
                  .c_str())[0]
        .untrained;
  };
  const std::set<size_t> first{1}, none;
  EXPECT_EQ(untrained(R"(, "weight": 0)", R"(, "weight": 1)"), first);
  EXPECT_EQ(untrained(R"(, "weight": 0.0)", R"(, "weight": null)"), first);
  EXPECT_EQ(untrained(R"(, "train": false)", R"(, "train": true)", R"(, "train": false)"), first);
  for (const char* key : {"trainable", "training", "loss"})
    EXPECT_EQ(untrained(", \"" + std::string(key) + "\": false", ""), first) << key;
  EXPECT_EQ(untrained(R"(, "masked": true)", R"(, "mask": false)"), first);
  EXPECT_EQ(untrained("", R"(, "weight": 1)", R"(, "weight": 1)"), none);
  const auto fault = [&](const std::string& one, const std::string& two, const std::string& of_user = "") {
    try {
      untrained(one, two, of_user);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  EXPECT_EQ(fault(R"(, "weight": 0)", R"(, "train": false)"),
            "no turn of the assistant counts: the messages' own switches (weight, train, ...) leave all of them out");
  EXPECT_EQ(fault(R"(, "weight": 0.5)", ""),
            "\"messages\"[1]: \"weight\" is 0.5, expected true or false: a turn counts in the loss or not");
  EXPECT_EQ(fault("", "", R"(, "train": true)"),
            "\"messages\"[0]: \"train\" is true, but only turns of the assistant are trained on; remove it");
  EXPECT_EQ(
      fault(R"(, "train_detail": [{"begin_offset": 0}])", ""),
      "\"messages\"[1]: \"train_detail\" is [{\"begin_offset\":0}]: parts of a message, or weights of its ids, are "
      "not supported; remove it");
  EXPECT_EQ(fault_of(R"({"prompt": "a", "completion": "b", "sample_weight": 0.5})"),
            "\"sample_weight\" is 0.5: weights of a row or of its ids are not supported; remove the column");
  const auto completion = of(R"({"prompt": [{"role": "user", "content": "a"}], "completion": [
      {"role": "assistant", "content": "b", "weight": 0}, {"role": "assistant", "content": "c"}]})");
  EXPECT_EQ(completion[0].untrained, first);
}

TEST(Conversations, MayBeginWithTheAssistantAndRepeatRoles) {
  for (const char* roles : {"assistant user assistant", "user user assistant", "user assistant assistant",
                            "user system assistant", "user tool assistant"}) {
    SCOPED_TRACE(roles);
    Json messages = Json::array();
    std::istringstream words(roles);
    for (std::string role; words >> role;) messages.push_back(said(role.c_str(), "x"));
    EXPECT_EQ(of(Json{{"messages", messages}}.dump().c_str())[0].messages, messages);
  }
}

TEST(Conversations, CallToolsAsOpenAIsFirstInterfaceDid) {
  const auto made = of(R"({"messages": [{"role": "user", "content": "w?"}, {"role": "assistant", "content": null,
      "function_call": {"name": "weather", "arguments": "{\"city\": \"Paris\"}"}},
      {"role": "function", "name": "weather", "content": "20"}, {"role": "assistant", "content": "20 degrees"}],
      "functions": [{"name": "weather"}], "chat_template_kwargs": {"deep": true}})");
  EXPECT_EQ(
      made[0].messages[1],
      (Json{{"role", "assistant"},
            {"content", ""},
            {"tool_calls",
             {{{"type", "function"}, {"function", {{"name", "weather"}, {"arguments", {{"city", "Paris"}}}}}}}}}));
  EXPECT_EQ(made[0].messages[2].at("role"), "tool");
  EXPECT_EQ(made[0].tools, (Json::array({{{"type", "function"}, {"function", {{"name", "weather"}}}}})));
  EXPECT_EQ(made[0].keywords, (Json{{"deep", true}}));
  EXPECT_EQ(fault_of(R"({"prompt": "a", "completion": "b", "chat_template_kwargs": 5})"),
            "\"chat_template_kwargs\" is number, expected an object");
}

TEST(Conversations, TakeOtherNamesOfColumnsAndRoles) {
  const ConversationColumns columns{{{"messages", "dialog"}, {"role", "who"}, {"content", "says"}}, {{"me", "user"}}};
  EXPECT_EQ(
      of(R"({"dialog": [{"who": "me", "says": "Hi"}, {"who": "assistant", "says": "Hello"}]})", columns)[0].messages,
      kHello);
  EXPECT_ERROR(check_columns({{{"message", "x"}}, {}}), ErrorKind::usage,
               "--column message=x: \"message\" is not a column; they are messages, conversations, role");
  EXPECT_ERROR(check_columns({{}, {{"me", "usr"}}}), ErrorKind::usage,
               "--role me=usr: \"usr\" is not a role; they are system, user, assistant, tool");
}

TEST(Conversations, SayWhatIsWrongWithARow) {
  EXPECT_EQ(fault_of(R"({"text": ""})"), "\"text\" is empty");
  EXPECT_EQ(fault_of(R"({"words": "x", "n": 1})"),
            "no conversation: expected \"messages\", \"conversations\", \"prompt\" and \"completion\", \"chosen\" and "
            "\"rejected\", \"instruction\" and \"output\", or \"text\", found words, n; name others with --column "
            "messages=NAME");
  EXPECT_EQ(fault_of(R"({"messages": [{"role": "user", "content": "x"}]})"), "no turn of the assistant");
  EXPECT_EQ(fault_of(R"({"messages": []})"), "no turn of the assistant");
  EXPECT_EQ(
      fault_of(R"({"messages": [{"role": "user", "content": "x"}, {"role": "narrator", "content": "y"}]})"),
      "\"messages\"[1] has the role \"narrator\", which is not known; map it with --role narrator=user (or system, "
      "assistant, tool)");
  EXPECT_EQ(fault_of(R"({"messages": [{"role": "user"}]})"), "\"messages\"[0] has no \"content\"");
  EXPECT_EQ(fault_of(R"({"messages": [{"content": "x"}]})"), "\"messages\"[0] has no \"role\"");
  EXPECT_EQ(
      fault_of(R"({"messages": [[{"role": "user", "content": "x"}]]})"),
      "\"messages\"[0] is a list, expected an object: the file seems to hold all conversations in one row; write a "
      "row for each of them");
  EXPECT_THAT(fault_of(R"({"messages": "[{'role': 'user'}]"})"),
              testing::EndsWith("; it is in Python's notation ('); write it with json.dumps()"));
  EXPECT_EQ(fault_of(R"({"messages": [5]})"), "\"messages\"[0] is number, expected an object");
  EXPECT_EQ(fault_of(R"({"messages": {"a": 1}})"), "\"messages\" is object, expected a list");
  EXPECT_EQ(fault_of(R"({"messages": [{"role": "user", "content": 5}]})"),
            "\"messages\"[0]: the content is number, expected a string or a list of parts");
  EXPECT_EQ(fault_of(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"),
            "\"messages\"[0]: a part of the content is not text; images, audio and video are not supported");
  EXPECT_EQ(fault_of(R"({"instruction": 5, "output": "x"})"), "\"instruction\" is number, expected a string");
  EXPECT_EQ(fault_of(R"({"instruction": "x", "output": "x", "history": [["a"]]})"),
            "an entry of \"history\" is not a pair of strings");
}

class ConversationFile : public ::testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) const {
    write_text(folder_ / name, text);
    return folder_ / name;
  }
  RowCounts read(const std::string& path, bool skips = false) {
    firsts_.clear();
    return read_conversations(path, {}, skips, [&](uint64_t row, const std::vector<Conversation>& made) {
      firsts_.push_back(std::to_string(row) + made[0].messages[0].at("content").get<std::string>());
      return firsts_.size() < most_;
    });
  }
  TemporaryFolder folder_;
  std::vector<std::string> firsts_;
  size_t most_ = 100;
};

const char* const kLine = R"({"prompt": "é", "completion": "y"})";

TEST_F(ConversationFile, IsJsonLinesArrayTableOrParquet) {
  const std::string line = kLine;
  read(file("a.jsonl", "\xEF\xBB\xBF" + line + "\n\n" + line));
  EXPECT_THAT(firsts_, testing::ElementsAre("1é", "3é"));
  read(file("a.json", "[" + line + ",\n" + line + "]"));
  EXPECT_THAT(firsts_, testing::ElementsAre("1é", "2é"));
  read(file("b.json", line + "\n" + line + "\n"));
  EXPECT_THAT(firsts_, testing::ElementsAre("1é", "2é"));
  read(file("a.csv", "prompt,completion\n\"a, \"\"b\"\"\",y\nz,1\n"));
  EXPECT_THAT(firsts_, testing::ElementsAre("1a, \"b\"", "2z"));
  read(file("a.tsv", "instruction\toutput\nx\ty\n"));
  EXPECT_THAT(firsts_, testing::ElementsAre("1x"));
  most_ = 1;
  EXPECT_EQ(read(file("c.jsonl", line + "\n" + line)).rows, 1U);
  EXPECT_ERROR(read(file("a.txt", "x")), ErrorKind::usage, "a.txt: unknown format; supported names end in .jsonl");
}

TEST_F(ConversationFile, OfOneArrayIsReadElementByElement) {
  const std::string line = kLine, hard = R"({"prompt": "]\\\"}, {\\", "completion": "y"})";
  read(file("a.json", "\xEF\xBB\xBF \n[\n" + line + " ,\n" + hard + "\n]\n \n"));
  EXPECT_THAT(firsts_, testing::ElementsAre("1é", "2]\\\"}, {\\"));
  const RowCounts counts = read(file("b.json", "[" + line + ", {\"prompt\": 'x'}, 7, " + line + "]"), true);
  EXPECT_THAT(firsts_, testing::ElementsAre("1é", "4é"));
  EXPECT_EQ(counts.skipped, 2U);
  EXPECT_THAT(counts.first_skipped, testing::HasSubstr("b.json row 2: the row: not valid JSON at line 1, column 13: "));
  EXPECT_EQ(read(file("c.json", " [ ] ")).rows, 0U);
  EXPECT_ERROR(read(file("d.json", "[" + line + ",]")), ErrorKind::data,
               "d.json row 2: nothing before \"]\"; remove a comma");
  EXPECT_ERROR(read(file("e.json", "[" + line + ",\n{\"prompt\": \"x\"")), ErrorKind::data,
               "e.json: its JSON array does not end: row 2 begins, but the file ends before \"]\"");
  EXPECT_ERROR(read(file("f.json", "[" + line + "] x")), ErrorKind::data,
               "f.json: found \"x\" after the end of its JSON array, expected nothing");
  // a line of 70 MB, of which no row is long, and a row that is longer than a line may be
  const std::string half(size_t{35} << 20, 'x');
  uint64_t seen = 0;
  const RowHandlers none{.wants = [&](uint64_t row) { return seen = row, false; }, .row = {}, .fault = {}};
  read_rows(file("g.json", "[\"" + half + "\",\"" + half + "\"]"), none);
  EXPECT_EQ(seen, 2U);
  EXPECT_ERROR(read_rows(file("h.json", "[\"" + half + half + "\"]"), none), ErrorKind::data,
               "h.json row 1: longer than 67108864 bytes, the limit");
}

TEST_F(ConversationFile, RefusesOrCountsBadRowsWithTheirPlace) {
  const std::string text = std::string(kLine) +
                           "\n{\"prompt\": 5, \"completion\": \"x\"}\nnot json\n[1]\n{\"prompt\": "
                           "\"\xff\", \"completion\": \"\"}\n" +
                           kLine + "\n";
  const std::string path = file("bad.jsonl", text);
  EXPECT_ERROR(read(path), ErrorKind::data,
               path + " row 2: \"prompt\" is number, expected a string; --skip-bad-rows skips and counts such rows");
  const RowCounts counts = read(path, true);
  EXPECT_THAT(firsts_, testing::ElementsAre("1é", "6é"));
  EXPECT_EQ(counts.rows, 6U);
  EXPECT_EQ(counts.conversations, 2U);
  EXPECT_EQ(counts.skipped, 4U);
  EXPECT_EQ(counts.first_skipped, path + " row 2: \"prompt\" is number, expected a string");
  EXPECT_ERROR(read(file("b.jsonl", "{\"a\":")), ErrorKind::data, "b.jsonl row 1: the line: not valid JSON at");
  EXPECT_ERROR(read(file("c.jsonl", "[1]")), ErrorKind::data, "c.jsonl row 1: array, expected an object");
  EXPECT_ERROR(read(file("d.jsonl", "{\"prompt\": \"\xff\"}")), ErrorKind::data,
               "d.jsonl row 1: the line: not valid JSON");
  EXPECT_ERROR(read(file("e.csv", "prompt,completion\nx,\xff\n")), ErrorKind::data,
               "e.csv row 1: \"completion\" is not UTF-8");
}

TEST_F(ConversationFile, ThatIsNotJsonSaysWhatItSeemsToBe) {
  const struct {
    std::string text, advice;
  } cases[] = {
      {"[\n {\"prompt\": \"a\"}\n]", ".jsonl has an object per line; let its name end in .json"},
      {R"([{"role": "user", "content": "a"}])",
       "array, expected an object; a list of messages needs a key: {\"messages\": [...]}"},
      {"[{\"prompt\": \"a\"}]", "array, expected an object; the file seems to be one JSON array"},
      {"{'prompt': 'a', 'completion': None}", "it is in Python's notation ('); write it with json.dumps()"},
      {"{\"prompt\": \"It's\", \"completion\": None}", "it is in Python's notation (None); write it with json.dumps()"},
      {"{\"prompt\": NaN}", "; JSON has no NaN; write null"},
      {"{\n \"prompt\": \"a\"\n}", "the object goes on in the next line, while .jsonl has an object per line"},
      {"\x1f\x8b\x08\n", "; the file is compressed by gzip; let its name end in .gz"},
      {"PAR1\n", "; the file is a Parquet file; let its name end in .parquet"},
      {std::string("\xff\xfe{\0", 4), "; the file is UTF-16; convert it: iconv -f UTF-16 -t UTF-8"},
  };
  for (const auto& [text, advice] : cases) {
    SCOPED_TRACE(advice);
    EXPECT_ERROR(read(file("a.jsonl", text)), ErrorKind::data, advice);
  }
  EXPECT_ERROR(read(file("a.csv", "prompt;completion\nx;y\n")), ErrorKind::data,
               "seem to be separated by a semicolon; write it with commas, or as .tsv with tabs");
  std::string latin = "prompt,completion\n";
  for (int row = 0; row < 20; ++row) latin += "caf\xe9 cr\xe8me,d\xe9j\xe0 vu\n";
  EXPECT_ERROR(read(file("c.csv", latin)), ErrorKind::data,
               "it seems to be text in ISO-8859-1; convert it with iconv -f ISO-8859-1 -t UTF-8");
  EXPECT_ERROR(read(file("b.csv", "prompt,completion,completion\nx,y,z\n")), ErrorKind::data,
               "b.csv: its header names the column \"completion\" twice; rename one of them");
}

TEST_F(ConversationFile, CountsBadRowsByTheirReason) {
  const std::string path = folder_ / "a.jsonl";
  const std::string line = kLine, five = R"({"prompt": 5, "completion": "x"})";
  const RowCounts counts =
      read(file("a.jsonl", line + "\n" + five + "\n" + R"({"messages": []})" + "\n" + five + "\n"), true);
  EXPECT_EQ(counts.skipped_text(), "3 skipped of 4 rows: 2 x \"prompt\" is number, expected a string (first " + path +
                                       " row 2) | 1 x no turn "
                                       "of the assistant (first " +
                                       path + " row 3)");
  ASSERT_EQ(counts.list.size(), 3U);
  EXPECT_EQ(counts.list[2], path + " row 4: \"prompt\" is number, expected a string");
  EXPECT_EQ(
      read(file("b.jsonl", line + "\n" + five + "\n"), true).skipped_text(),
      "1 skipped of 2 rows; for example " + (folder_ / "b.jsonl") + " row 2: \"prompt\" is number, expected a string");
}

TEST_F(ConversationFile, ParquetHasColumnsOfTextsOrOfMessages) {
  const std::string path = source_dir() + "/tests/golden/parquet/gzip-v1-plain.parquet";
  const ConversationColumns columns{{{"prompt", "text"}, {"completion", "text"}}, {}};
  const RowCounts counts =
      read_conversations(path, columns, true, [&](uint64_t row, const std::vector<Conversation>& made) {
        firsts_.push_back(std::to_string(row) + made[0].messages[0].at("content").get<std::string>());
        return firsts_.size() < 2;
      });
  EXPECT_THAT(firsts_, testing::ElementsAre("1row 0 ", "2row 1 xyz"));
  EXPECT_EQ(counts.conversations, 2U);
  most_ = 1;
  EXPECT_EQ(read(source_dir() + "/tests/golden/parquet/lists-v1.parquet", true).skipped, 16U);
  EXPECT_THAT(firsts_, testing::ElementsAre("1716.0 éxxxxxxx"));
}

}  // namespace
}  // namespace trireme::chat
