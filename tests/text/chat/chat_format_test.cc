#include "text/chat/chat_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "text/chat/conversation.h"
#include "text/files/tokenizer_writer.h"
#include "text/training/bpe_trainer.h"

namespace trireme::chat {
namespace {

constexpr const char* kChatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
constexpr const char* kMarked =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}"
    "{% endfor %}";
/// Writes reasoning of the last turn only, as Qwen3's template does.
constexpr const char* kRewriting =
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}{{ m.reasoning_content }}|"
    "{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

std::unique_ptr<Tokenizer> byte_tokenizer() {
  PieceCounter counts;
  counts.add_text("the cat sat on the mat and the other dog sat in the log");
  BpeTraining training;
  training.vocabulary_size = 280;
  BpeDescription made = train_bpe(counts, training);
  auto id = static_cast<TokenId>(made.vocabulary.size() + 20);
  for (const char* name : {"<|im_start|>", "<|im_end|>", "<s>"}) {
    AddedToken token;
    token.id = id++;
    token.content = name;
    token.special = true;
    made.added.push_back(token);
  }
  made.begin = made.added.back();
  return tokenizer_from_json(write_tokenizer_json(made), "bytes");
}

ChatFormat format_of(const char* source) { return {ChatFiles{"model"}, TemplateSource{source, "t.jinja"}}; }

Json said(const char* role, const char* content) { return {{"role", role}, {"content", content}}; }

Conversation two_turns() {
  Conversation made;
  made.messages = {said("system", "Be kind."), said("user", "the cat?"), said("assistant", "sat"),
                   said("user", "the dog 😀?"), said("assistant", "sat in the log é")};
  return made;
}

std::string counted_text(const Tokenizer& tokenizer, const ChatTokens& tokens) {
  std::vector<TokenId> ids;
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    if (tokens.mask[i] != 0) ids.push_back(tokens.ids[i]);
  }
  return tokenizer.decode(ids);
}

TEST(ChatFormat, LearnsTurnsOfTheAssistantWithTheTokenThatEndsThem) {
  const auto tokenizer = byte_tokenizer();
  for (const char* source : {kChatml, kMarked}) {
    SCOPED_TRACE(source);
    const ChatTokens tokens = format_of(source).tokens(two_turns(), *tokenizer, LossOn::assistant);
    EXPECT_EQ(
        tokens.text,
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nthe cat?<|im_end|>\n<|im_start|>assistant\nsat"
        "<|im_end|>\n<|im_start|>user\nthe dog 😀?<|im_end|>\n<|im_start|>assistant\nsat in the log é<|im_end|>\n");
    EXPECT_EQ(tokenizer->decode(tokens.ids), tokens.text);  // no <s>, which the tokenizer begins other texts with
    EXPECT_EQ(tokens.mask.size(), tokens.ids.size());
    EXPECT_EQ(counted_text(*tokenizer, tokens), "sat<|im_end|>sat in the log é<|im_end|>");
    EXPECT_EQ(counted_text(*tokenizer, format_of(source).tokens(two_turns(), *tokenizer, LossOn::last)),
              "sat in the log é<|im_end|>");
    EXPECT_EQ(counted_text(*tokenizer, format_of(source).tokens(two_turns(), *tokenizer, LossOn::all)), tokens.text);
  }
}

TEST(ChatFormat, LearnsNothingOfThePrompt) {
  const auto tokenizer = byte_tokenizer();
  Conversation conversation = two_turns();
  conversation.prompt = 4;
  for (const char* source : {kChatml, kMarked}) {
    const ChatTokens tokens = format_of(source).tokens(conversation, *tokenizer, LossOn::assistant);
    EXPECT_EQ(counted_text(*tokenizer, tokens), "sat in the log é<|im_end|>");
  }
  const ChatTokens all = format_of(kChatml).tokens(conversation, *tokenizer, LossOn::all);
  EXPECT_EQ(counted_text(*tokenizer, all), "sat in the log é<|im_end|>\n");
}

TEST(ChatFormat, RefusesATemplateThatRewritesEarlierTurns) {
  const auto tokenizer = byte_tokenizer();
  Conversation conversation = two_turns();
  conversation.messages[2]["reasoning"] = "why";
  conversation.messages[4]["thinking"] = "because";
  EXPECT_ERROR(
      format_of(kRewriting).tokens(conversation, *tokenizer, LossOn::assistant), ErrorKind::data,
      "t.jinja: message 3 cannot be found in the conversation's text: the template writes earlier turns in "
      "another way than the last one, and does not mark them; use a template with {% generation %} around what "
      "the assistant says (--chat-template FILE), or --loss-on last, or --loss-on all");
  EXPECT_EQ(counted_text(*tokenizer, format_of(kRewriting).tokens(conversation, *tokenizer, LossOn::last)),
            "because|sat in the log é");
}

TEST(ChatFormat, RefusesWhatHasNoTurnOfTheAssistant) {
  const auto tokenizer = byte_tokenizer();
  Conversation conversation;
  conversation.messages = {said("user", "x")};
  EXPECT_ERROR(format_of(kChatml).tokens(conversation, *tokenizer, LossOn::assistant), ErrorKind::data,
               "t.jinja: the conversation has no turn of the assistant");
  conversation.messages.push_back(said("assistant", "y"));
  const char* const marks_nothing =
      "{% for m in messages %}{{ m.content }}{% generation %}{% endgeneration %}{% endfor %}";
  EXPECT_ERROR(format_of(marks_nothing).tokens(conversation, *tokenizer, LossOn::assistant), ErrorKind::data,
               "t.jinja: nothing in the conversation's text is marked by {% generation %}");
}

/// Several blocks for each message, one of them empty where a message has no reasoning.
constexpr const char* kSeveralBlocks =
    "{% for m in messages %}{{ '<|im_start|>' ~ m.role ~ '\n' }}{% if m.role == 'assistant' %}"
    "{% generation %}{{ m.thinking or '' }}{% endgeneration %}{{ '|' }}{% generation %}{{ m.content }}"
    "{% endgeneration %}{% generation %}{{ '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content ~ '<|im_end|>' }}"
    "{% endif %}{{ '\n' }}{% endfor %}";
/// The same by index, and with the message in a variable.
constexpr const char* kByIndex =
    "{% for i in range(messages|length) %}{{ '<|im_start|>' ~ messages[i].role ~ '\n' }}{% if messages[i].role == "
    "'assistant' %}{% generation %}{{ messages[i].thinking or '' }}{% endgeneration %}{{ '|' }}{% generation %}"
    "{{ messages[i].content ~ '<|im_end|>' }}{% endgeneration %}{% else %}{{ messages[i].content ~ '<|im_end|>' }}"
    "{% endif %}{{ '\n' }}{% endfor %}";
constexpr const char* kInVariable =
    "{% set first = messages[0] %}{% for i in range(messages|length) %}{% set m = messages[i] %}"
    "{{ '<|im_start|>' ~ m.role ~ '\n' }}{% if m.role == 'assistant' %}{% set said = m.content %}{% generation %}"
    "{% endgeneration %}{{ '|' }}{% generation %}{{ said }}{{ '<|im_end|>' }}{% endgeneration %}{% else %}"
    "{{ m.content ~ '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}";

TEST(ChatFormat, AttributesMarkedSpansToTheMessageThatWroteThem) {
  const auto tokenizer = byte_tokenizer();
  for (const char* source : {kSeveralBlocks, kByIndex, kInVariable}) {
    SCOPED_TRACE(source);
    const ChatFormat format = format_of(source);
    Conversation conversation = two_turns();
    const auto counted = [&](LossOn loss_on) {
      return counted_text(*tokenizer, format.tokens(conversation, *tokenizer, loss_on));
    };
    EXPECT_EQ(counted(LossOn::assistant), "sat<|im_end|>sat in the log é<|im_end|>");
    EXPECT_EQ(counted(LossOn::last), "sat in the log é<|im_end|>");
    conversation.untrained = {2};
    EXPECT_EQ(counted(LossOn::assistant), "sat in the log é<|im_end|>");
    conversation.untrained = {4};
    EXPECT_EQ(counted(LossOn::assistant), "sat<|im_end|>");
    EXPECT_ERROR(counted(LossOn::last), ErrorKind::data, "no turn of the assistant counts: the conversation's own");
    EXPECT_ERROR(counted(LossOn::all), ErrorKind::data, "message 5 is not to count by its own switch");
    conversation.untrained = {};
    conversation.prompt = 4;
    EXPECT_EQ(counted(LossOn::assistant), "sat in the log é<|im_end|>");
    conversation.messages[2]["thinking"] = "hm";
    EXPECT_EQ(counted(LossOn::assistant), "sat in the log é<|im_end|>");
  }
}

TEST(ChatFormat, HonoursTheSwitchesOfMessagesWithoutMarks) {
  const auto tokenizer = byte_tokenizer();
  Conversation conversation = two_turns();
  conversation.untrained = {2};
  EXPECT_EQ(counted_text(*tokenizer, format_of(kChatml).tokens(conversation, *tokenizer, LossOn::assistant)),
            "sat in the log é<|im_end|>");
}

TEST(ChatFormat, CountsWhiteSpaceThatTheTemplateMarks) {
  const auto tokenizer = byte_tokenizer();
  const char* const newline =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content + '<|im_end|>\n' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}"
      "{% endfor %}";
  EXPECT_EQ(counted_text(*tokenizer, format_of(newline).tokens(two_turns(), *tokenizer, LossOn::assistant)),
            "sat<|im_end|>\nsat in the log é<|im_end|>\n");
}

TEST(ChatFormat, RefusesATemplateThatDoesNotWriteWhatTheAssistantSays) {
  const auto tokenizer = byte_tokenizer();
  const char* const no_calls =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') + '<|im_end|>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  Conversation conversation;
  conversation.messages = {said("user", "w?"), said("assistant", "")};
  conversation.messages[1]["tool_calls"] = {{{"function", {{"name", "weather"}}}}};
  for (const LossOn loss_on : {LossOn::assistant, LossOn::last, LossOn::all})
    EXPECT_ERROR(
        format_of(no_calls).tokens(conversation, *tokenizer, loss_on), ErrorKind::data,
        "t.jinja: the template does not write the call of weather of message 2, which the assistant says, so an "
        "empty turn would be trained; use a template that does (--chat-template FILE)");
  const std::string calls =
      std::string(no_calls).replace(std::string(no_calls).find("(m.content"), 17, "(m.content or m.tool_calls|string)");
  EXPECT_TRUE(format_of(calls.c_str()).tokens(conversation, *tokenizer, LossOn::last).ends);
  conversation.messages[1]["content"] = "Let me look.";
  const std::string only_calls = std::string(no_calls).replace(std::string(no_calls).find("(m.content"), 17,
                                                               "(m.tool_calls|string if m.tool_calls else m.content)");
  EXPECT_THAT(format_of(only_calls.c_str()).tokens(conversation, *tokenizer, LossOn::last).left_out,
              testing::ElementsAre("assistant"));
  EXPECT_ERROR(format_of(no_calls).tokens(conversation, *tokenizer, LossOn::last), ErrorKind::data,
               "the call of weather of message 2");
  const char* const drops_words =
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content if m.role == 'user' else '') + "
      "'<|im_end|>' "
      "}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  EXPECT_ERROR(format_of(drops_words).tokens(two_turns(), *tokenizer, LossOn::assistant), ErrorKind::data,
               "t.jinja: the template does not write the content of message 3");
}

TEST(ChatFormat, SaysWhichRolesTheTemplateLeavesOut) {
  const auto tokenizer = byte_tokenizer();
  const char* const no_tools =
      "{% for m in messages if m.role in ['user', 'assistant', 'system'] %}{{ '<|im_start|>' + m.role + '\n' + "
      "m.content "
      "+ '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  Conversation conversation = two_turns();
  conversation.messages.insert(conversation.messages.begin() + 3, said("tool", "seventeen"));
  EXPECT_THAT(format_of(no_tools).tokens(conversation, *tokenizer, LossOn::assistant).left_out,
              testing::ElementsAre("tool"));
  EXPECT_THAT(format_of(kChatml).tokens(conversation, *tokenizer, LossOn::assistant).left_out, testing::IsEmpty());
  conversation.messages[0]["role"] = "developer";
  EXPECT_TRUE(format_of(no_tools).renames_developer());
  EXPECT_FALSE(format_of(kChatml).renames_developer());
  EXPECT_THAT(format_of(no_tools).render(conversation, 2, false).text,
              testing::StartsWith("<|im_start|>system\nBe kind.<|im_end|>"));
}

TEST(ChatFormat, GivesContentsInTheFormThatTheTemplateReads) {
  const char* const parts_only =
      "{% for m in messages %}[{{ m.role }}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}"
      "{% endif %}{% endfor %}]{% endfor %}{% if add_generation_prompt %}[assistant{% endif %}";
  const Json parts = {{{"type", "text"}, {"text", "the "}}, {{"type", "text"}, {"text", "cat"}}};
  Conversation conversation;
  conversation.messages = {said("user", "the cat"), said("assistant", "sat")};
  EXPECT_EQ(format_of(parts_only).render(conversation, 2, false).text, "[userthe cat][assistantsat]");
  conversation.messages[0]["content"] = parts;
  EXPECT_EQ(format_of(parts_only).render(conversation, 2, false).text, "[userthe cat][assistantsat]");
  EXPECT_EQ(format_of(kChatml).render(conversation, 1, false).text, "<|im_start|>user\nthe cat<|im_end|>\n");
  const char* const printed = "{% for m in messages %}{{ m.content }}{% endfor %}";  // Python's text of the list
  EXPECT_EQ(format_of(printed).render(conversation, 1, false).text, "the cat");
}

TEST(ChatFormat, FindsATurnInFrontOfAllOthers) {
  const auto tokenizer = byte_tokenizer();
  const std::string needs_a_message = std::string("{% if messages[0].role == 'x' %}{% endif %}") + kChatml;
  Conversation conversation = two_turns();
  conversation.messages.erase(conversation.messages.begin(), conversation.messages.begin() + 2);
  for (const std::string& source : {std::string(kChatml), needs_a_message})
    EXPECT_EQ(counted_text(*tokenizer, format_of(source.c_str()).tokens(conversation, *tokenizer, LossOn::assistant)),
              "sat<|im_end|>sat in the log é<|im_end|>");
}

TEST(ChatFormat, KnowsWhetherATurnEndsWithAToken) {
  const auto tokenizer = byte_tokenizer();
  const char* const no_end =
      "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";
  for (const LossOn loss_on : {LossOn::assistant, LossOn::last, LossOn::all}) {
    EXPECT_FALSE(format_of(no_end).tokens(two_turns(), *tokenizer, loss_on).ends);
    EXPECT_TRUE(format_of(kChatml).tokens(two_turns(), *tokenizer, loss_on).ends);
  }
  EXPECT_TRUE(format_of(kMarked).tokens(two_turns(), *tokenizer, LossOn::assistant).ends);
  std::string outside = kMarked;  // the template writes the token, but does not mark it
  outside.replace(outside.find("{{ m.content + '<|im_end|>' }}{% endgeneration %}"), 50,
                  "{{ m.content }}{% endgeneration %}{{ '<|im_end|>' }}");
  EXPECT_FALSE(format_of(outside.c_str()).tokens(two_turns(), *tokenizer, LossOn::assistant).ends);
}

TEST(ChatFormat, SaysWhatTheBeginningOfAnAnswerAdds) {
  const auto tokenizer = byte_tokenizer();
  const std::string opens = std::string(kChatml).replace(std::string(kChatml).rfind("\\n' }}"), 6, "\\n<think>' }}");
  Conversation conversation;
  conversation.messages = {said("user", "the cat?"), said("assistant", "sat")};
  EXPECT_ERROR(format_of(opens.c_str()).tokens(conversation, *tokenizer, LossOn::assistant), ErrorKind::data,
               "t.jinja: message 2 cannot be found in the conversation's text: the template begins an answer with "
               "\"<think>\", which the text of a finished answer does not have; use a template with {% generation %}");
}

TEST(ChatFormat, FindsTurnsInTheTextAsItWasGiven) {
  const auto tokenizer = tokenizer_from_json(
      R"({"version": "1.0", "added_tokens": [{"id": 9, "content": "<|end|>", "single_word": false, "lstrip": false,
      "rstrip": true, "normalized": false, "special": true}], "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "NFC"}, {"type": "Lowercase"}]}, "pre_tokenizer": {"type": "Whitespace"}, "model": {"type": "WordLevel",
      "unk_token": "?", "vocab": {"?": 0, "user": 1, "caf\u00e9": 2, "\u03c9": 3, "assistant": 4, "yes": 5}}})",
      "words");
  const char* const phi =
      "{% for m in messages %}{{ m.role + '\n' + m.content + '<|end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ 'assistant\n' }}{% endif %}";
  Conversation conversation;
  conversation.messages = {said("user", "Cafe\u0301 \u2126?"), said("assistant", "\u2126 Cafe\u0301"),
                           said("user", "Yes"), said("assistant", "yes")};
  const ChatTokens tokens = format_of(phi).tokens(conversation, *tokenizer, LossOn::assistant);
  EXPECT_EQ(tokens.ids, (std::vector<TokenId>{1, 2, 3, 0, 9, 4, 3, 2, 9, 1, 5, 9, 4, 5, 9}));
  EXPECT_EQ(tokens.mask, (std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1}));
}

TEST(ChatFormat, GivesTheTemplateWhatTransformersGives) {
  const Json messages = {{{"role", "assistant"}, {"content", nullptr}, {"reasoning", "r"}, {"tool_calls", nullptr}}};
  EXPECT_EQ(template_messages(messages),
            (Json{{{"thinking", "r"}, {"role", "assistant"}, {"reasoning", "r"}, {"reasoning_content", "r"}}}));
  Conversation conversation = two_turns();
  conversation.tools = Json::array({{{"name", "f"}}});
  conversation.keywords["deep"] = true;
  const ChatFiles files{.where = "m", .templates = {}, .tokens = {{"bos_token", "<s>"}}};
  const ChatFormat format(files,
                          TemplateSource{"{{ bos_token }}{{ tools }}{{ documents }}{{ deep }}{{ messages|length }}"
                                         "{{ add_generation_prompt }}{{ eos_token is defined }}",
                                         "t"});
  EXPECT_EQ(format.render(conversation, 2, true).text, "<s>[{'name': 'f'}]NoneTrue2TrueFalse");
  conversation.tools = nullptr;
  EXPECT_EQ(format.render(conversation, 5, false).text, "<s>NoneNoneTrue5FalseFalse");
}

TEST(ChatFiles, FindsTemplatesAndTokensWhereModelsKeepThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "additional_chat_templates");
  write_text(folder / "tokenizer_config.json",
             R"({"chat_template": [{"name": "default", "template": "old"}, {"name": "rag", "template": "r"}],
             "bos_token": {"content": "<s>", "special": true}, "eos_token": "</s>", "pad_token": null,
             "extra_special_tokens": {"image_token": "<img>"}})");
  write_text(folder / "special_tokens_map.json", R"({"eos_token": "other", "unk_token": "<unk>"})");
  write_text(folder / "chat_template.jinja", "new");
  write_text(folder / "additional_chat_templates/tool_use.jinja", "tools");
  const ChatFiles files = read_chat_files(folder.path());
  EXPECT_EQ(files.tokens,
            (std::map<std::string, std::string>{
                {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"image_token", "<img>"}, {"unk_token", "<unk>"}}));
  EXPECT_EQ(find_template(files, "", false).text, "new");
  EXPECT_EQ(find_template(files, "", true).text, "tools");
  EXPECT_EQ(find_template(files, "rag", true).text, "r");
  EXPECT_EQ(find_template(files, "rag", true).where, folder.path() + "/tokenizer_config.json chat_template \"rag\"");
  EXPECT_ERROR(find_template(files, "x", false), ErrorKind::io,
               folder.path() +
                   " has no chat template \"x\"; it has default, rag, tool_use; select one with "
                   "--chat-template NAME");
  EXPECT_ERROR(
      find_template(ChatFiles{"m"}, "", false), ErrorKind::io,
      "m has no chat template: neither chat_template.jinja nor \"chat_template\" in tokenizer_config.json; give "
      "one with --chat-template FILE");
  EXPECT_ERROR(find_template(ChatFiles{"m"}, "chatml", false), ErrorKind::io,
               "in tokenizer_config.json, and \"chatml\" is not a file; give one with --chat-template FILE");
  EXPECT_ERROR(chat_files_of({{"tokenizer_config.json", R"({"chat_template": 5})"}}, "m"), ErrorKind::data,
               "m/tokenizer_config.json: \"chat_template\" is neither a string nor a list of templates");
  EXPECT_ERROR(
      chat_files_of({{"tokenizer_config.json", R"({"bos_token": 5})"}}, "m"), ErrorKind::data,
      "m/tokenizer_config.json: \"bos_token\" is not a token: expected a string, or an object with \"content\"");
}

}  // namespace
}  // namespace trireme::chat
