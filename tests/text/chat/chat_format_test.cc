#include "text/chat/chat_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "text/chat/conversation.h"
#include "text/files/tokenizer_writer.h"
#include "text/models/bpe_trainer.h"

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
  EXPECT_ERROR(format_of(kMarked).tokens(conversation, *tokenizer, LossOn::assistant), ErrorKind::data,
               "t.jinja: nothing in the conversation's text is marked by {% generation %}");
}

TEST(ChatFormat, RefusesATokenizerThatChangesTheText) {
  const auto tokenizer = tokenizer_from_json(
      R"({"version": "1.0", "added_tokens": [], "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"},
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "user": 1, "cat": 2}}})",
      "words");
  EXPECT_ERROR(
      places_of_ids(*tokenizer, "user Cat x", {1, 2, 0}), ErrorKind::data,
      "the tokenizer changes the conversation's text (it becomes \"user cat ?\"...), so the ids of a turn cannot "
      "be found; --loss-on all needs no turns");
  EXPECT_ERROR(places_of_ids(*tokenizer, "cat", {1, 2, 2, 2}), ErrorKind::data, "the tokenizer changes the");
  Conversation conversation;
  conversation.messages = {said("user", "Cat"), said("assistant", "cat")};
  EXPECT_ERROR(format_of(kChatml).tokens(conversation, *tokenizer, LossOn::assistant), ErrorKind::data,
               "the tokenizer changes the");
  const ChatTokens all = format_of(kChatml).tokens(conversation, *tokenizer, LossOn::all);
  EXPECT_EQ(all.mask, std::vector<uint8_t>(all.ids.size(), 1));
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
