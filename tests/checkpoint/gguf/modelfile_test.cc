#include "checkpoint/gguf/modelfile.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using testing::HasSubstr;

chat::ChatFiles files_of(const std::string& text) {
  return {
      .where = "model", .templates = {{"default", {text, "chat_template.jinja"}}}, .tokens = {{"bos_token", "<s>"}}};
}

std::string why_not(const std::string& text) {
  std::string why;
  EXPECT_FALSE(turn_texts(files_of(text), why));
  return why;
}

constexpr const char* kChatMl =
    "{{ bos_token }}{% if messages[0].role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

TEST(Modelfile, ATemplateOfTurnsIsTranslated) {
  std::string why;
  const auto turns = turn_texts(files_of(kChatMl), why);
  ASSERT_TRUE(turns) << why;
  EXPECT_EQ(turns->to_ollama(),
            "{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ else }}<|im_start|>system\nYou help."
            "<|im_end|>\n{{ end }}{{ range .Messages }}{{ if eq .Role \"user\" }}<|im_start|>user\n{{ .Content }}"
            "<|im_end|>\n{{ else if eq .Role \"assistant\" }}<|im_start|>assistant\n{{ .Content }}<|im_end|>\n"
            "{{ end }}{{ end }}<|im_start|>assistant\n");
}

TEST(Modelfile, WithoutASystemTextThereIsNone) {
  std::string why;
  const auto turns = turn_texts(
      files_of("{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
               "{{ '<u>' if m.role == 'user' else '<a>' }}{{ m.content | trim }}{{ '</s>' if m.role == 'assistant' }}"
               "{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"),
      why);
  ASSERT_TRUE(turns) << why;
  EXPECT_FALSE(turns->system_before);
  EXPECT_EQ(turns->to_ollama(),
            "{{ range .Messages }}{{ if eq .Role \"user\" }}<u>{{ .Content }}{{ else if eq .Role \"assistant\" }}<a>"
            "{{ .Content }}</s>{{ end }}{{ end }}<a>");
}

TEST(Modelfile, AnEndBehindTheLastTurnIsNotPartOfTurns) {
  std::string why;
  const auto turns =
      turn_texts(files_of("{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
                          "{% if add_generation_prompt %}<|assistant|>\n{% else %}<|endoftext|>{% endif %}"),
                 why);
  ASSERT_TRUE(turns) << why;
  EXPECT_EQ(turns->user_before, "<|user|>\n");
  EXPECT_EQ(turns->assistant_after, "<|end|>\n");
}

TEST(Modelfile, WhatWritesMoreThanTurnsIsNotTranslated) {
  EXPECT_EQ(why_not("{% for m in messages %}{{ loop.index }}:{{ m.content }}\n{% endfor %}"),
            "what it writes around a turn depends on more than the turn's role");
  EXPECT_EQ(
      why_not("{% set s = messages[0].content if messages[0].role == 'system' else '' %}{% for m in messages %}"
              "{% if m.role == 'user' %}[INST] {% if loop.index0 == 1 and s %}{{ s }}\n\n{% endif %}"
              "{{ m.content }}[/INST]{% elif m.role == 'assistant' %} {{ m.content }}</s>{% endif %}{% endfor %}"),
      "it puts the system text into the first turn");
  EXPECT_EQ(why_not("{{ raise_exception('no') }}"), "it refuses a plain conversation");
  EXPECT_EQ(why_not("{% for m in messages %}{{ '{{' }}{{ m.content }}|{% endfor %}"),
            "it has text that ollama's language reserves");
  EXPECT_THAT(why_not("{% for %}"), HasSubstr("chat_template.jinja"));
}

}  // namespace
}  // namespace trireme
