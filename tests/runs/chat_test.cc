// `trireme tokenizer chat` and `trireme sample --chat`, as a user runs them.

#include <gmock/gmock.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/json_text.h"
#include "base/rng.h"
#include "checkpoint/huggingface/huggingface.h"
#include "tests/runs/special_tokens.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTemplate =
    "{%- for m in messages %}{{ '<s>' + m.role + ':' + m.content + '</s>\\n' }}{% endfor %}"
    "{%- if add_generation_prompt %}{{ '<s>assistant:' }}{% endif %}";

class TokenizerChat : public ::testing::Test {
 protected:
  /// A byte-level tokenizer with <s> and </s>, and a template.
  void SetUp() override {
    std::filesystem::create_directory(path("model"));
    write_text(path("text.txt"), "the cat sat on the mat and the dog sat");
    const Outcome trained = run(trireme_command(
        {"tokenizer", "train", "--input", path("text.txt"), "--vocab-size", "262", "--output", path("model")}));
    ASSERT_EQ(trained.code, 0) << trained.output;
    Json json = read_json(path("model/tokenizer.json"));
    add_special_tokens(json, 300);
    write_text(path("model/tokenizer.json"), dump_json(json));
    write_text(path("model/chat_template.jinja"), kTemplate);
    write_text(path("data.jsonl"),
               R"({"messages": [{"role": "user", "content": "a\tb"}, {"role": "assistant", "content": "c"}]}
{"messages": [{"role": "user", "content": "d"}]}
{"instruction": "e", "output": "f"}
)");
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  Outcome chat(std::vector<std::string> words) const {
    words.insert(words.begin(), {"tokenizer", "chat", "--tokenizer", path("model")});
    return run(trireme_command(std::move(words)));
  }
  TemporaryFolder folder_;
};

TEST_F(TokenizerChat, ShowsTextIdsAndWhatCounts) {
  const Outcome outcome = chat({path("data.jsonl")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output,
              StartsWith(path("data.jsonl") + " row 1: 25 ids, 2 trained on\n<s>user:a\tb</s>\n<s>assistant:c</s>\n"
                                              "\nids (* trained on)\n     0     301   \"<s>\"\n"));
  EXPECT_THAT(outcome.output, HasSubstr("   \"\\t\"\n"));
  EXPECT_THAT(outcome.output, HasSubstr(" * \"c\"\n"));
  EXPECT_THAT(outcome.output, HasSubstr("     302 * \"</s>\"\n"));
  EXPECT_THAT(outcome.output, HasSubstr("   \"\\n\"\n"));
}

TEST_F(TokenizerChat, RefusesOrCountsBadRows) {
  const Outcome refused = chat({path("data.jsonl"), "--rows", "0"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr(path("data.jsonl") + " row 2: no turn of the assistant; --skip-bad-rows skips "
                                                             "and counts such rows"));
  const Outcome counted = chat({path("data.jsonl"), "--rows", "0", "--skip-bad-rows", "--jsonl"});
  EXPECT_EQ(counted.code, 0);
  EXPECT_THAT(counted.output, HasSubstr("data.jsonl: 1 skipped of 3 rows; for example " + path("data.jsonl") +
                                        " row 2: no turn of the assistant"));
  EXPECT_THAT(counted.output, HasSubstr("\"row\":3,\"text\":\"<s>user:e</s>\\n<s>assistant:f</s>\\n\",\"ids\":[301,"));
  EXPECT_THAT(chat({path("data.jsonl"), "--first", "3", "--loss-on", "all", "--skip-bad-rows"}).output,
              HasSubstr("row 3: 23 ids, 23 trained on"));
}

TEST_F(TokenizerChat, TakesATemplateAndItsOptions) {
  write_text(path("own.jinja"),
             "{{ n }}{{ word }}{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}");
  const Outcome own = chat({path("data.jsonl"), "--chat-template", path("own.jinja"), "--template-option", "n=5",
                            "--template-option", "word=x y", "--jsonl"});
  EXPECT_THAT(own.output, HasSubstr("\"text\":\"5x ya\\tbc\""));
  write_text(path("own.jinja"), "\n{{ raise_exception('no ' ~ messages[0].role) }}");
  EXPECT_THAT(
      chat({path("data.jsonl"), "--chat-template", path("own.jinja")}).output,
      HasSubstr("data.jsonl row 1: " + path("own.jinja") + " line 2: the template refuses the conversation: no user"));
  EXPECT_THAT(chat({path("data.jsonl"), "--chat-template", "nosuch"}).output,
              HasSubstr(" has no chat template \"nosuch\"; it has default; select one with --chat-template NAME"));
  const Outcome option = chat({path("data.jsonl"), "--template-option", "n"});
  EXPECT_EQ(option.code, 2);
  EXPECT_THAT(option.output, HasSubstr("--template-option n: expected NAME=VALUE"));
  EXPECT_THAT(chat({path("data.jsonl"), "--role", "a=user", "--role", "a=tool"}).output,
              HasSubstr("--role a=tool: \"a\" is given twice"));
  EXPECT_THAT(chat({path("nosuch.jsonl")}).output, HasSubstr("nosuch.jsonl does not exist"));
}

class SampleChat : public ::testing::Test {
 protected:
  /// A random model whose tokens are words.
  void SetUp() override {
    Spec spec;
    spec.vocabulary = spec.vocabulary_rows = 24;
    spec.context = 64;
    spec.layers = 1;
    spec.heads = 2;
    spec.width = 16;
    spec.inner_width = 32;
    const ParameterTable table(spec);
    TrainingState state(table, DType::f32, false);
    uint64_t key = 7;
    for (const Parameter& p : table.all()) {
      std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(0.5 * normal_at(mix_key(key, 1), i));
      state.write_master(p, values);
      ++key;
    }
    Json vocabulary = {{"?", 0}, {"system", 1}, {"user", 2}, {"assistant", 3}, {"end", 4}};
    for (int id = 5; id < 24; ++id) vocabulary[fmt::format("w{}", id)] = id;
    const std::string tokenizer =
        R"({"pre_tokenizer": {"type": "WhitespaceSplit"}, "model": {"type": "WordLevel", "unk_token": "?", "vocab": )" +
        dump_json(vocabulary) + "}}";
    export_huggingface(path("model"), spec, table, state, tokenizer, DType::f32);
    write_text(path("model/chat_template.jinja"),
               "{% for m in messages %}{{ m.role ~ ' ' ~ m.content ~ ' end ' }}{% endfor %}"
               "{% if add_generation_prompt %}assistant{% endif %}");
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  std::vector<std::string> words(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"sample", "--threads", "1", "--model", path("model"), "--greedy", "--max-new-tokens",
                                 "6", "--jsonl", "--no-stop-at-end"});
    return trireme_command(flags);
  }
  static std::vector<std::string> texts(const Outcome& outcome) {
    std::vector<std::string> out;
    std::istringstream in(outcome.output);
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("{")) out.push_back(parse_json(line, "sample").at("text").get<std::string>());
    }
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(SampleChat, AnswersAsItContinuesTheTextOfTheTemplate) {
  const auto answer = texts(run(words({"--chat", "--prompt", "w5", "--system", "w9"})));
  const auto text = texts(run(words({"--prompt", "system w9 end user w5 end assistant"})));
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer, text);
}

TEST_F(SampleChat, RemembersWhatWasSaid) {
  std::string command = "printf 'w5\\nw6\\n' | ";
  for (const std::string& word : words({"--chat", "--interactive"})) command += "'" + word + "' ";
  const auto answers = texts(run({"sh", "-c", command}));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(texts(run(words({"--prompt", "user w5 end assistant"}))).at(0), answers[0]);
  EXPECT_EQ(texts(run(words({"--prompt", "user w5 end assistant " + answers[0] + " end user w6 end assistant"}))).at(0),
            answers[1]);
}

TEST_F(SampleChat, SaysWhatItNeeds) {
  const Outcome nothing = run(words({"--chat"}));
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.output,
              HasSubstr("--chat needs a message of the user; add --prompt, --prompt-file or --interactive"));
  EXPECT_THAT(run(words({"--system", "w5", "--prompt", "w5"})).output,
              HasSubstr("--system, --chat-template and --template-option need --chat"));
  std::filesystem::remove(path("model/chat_template.jinja"));
  const Outcome missing = run(words({"--chat", "--prompt", "w5"}));
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.output, HasSubstr("model has no chat template: neither chat_template.jinja nor"));
}

}  // namespace
}  // namespace trireme
