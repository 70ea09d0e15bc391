#include "text/chat/training_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "text/chat/conversation.h"

namespace trireme::chat {
namespace {

/// Replaces the text from the first `from` up to the next `to`, which stays; "@" in `with` is the text replaced.
struct Edit {
  std::string_view from, to, with;
};

struct Published {
  std::string_view model;
  std::vector<uint64_t> hashes;  ///< XXH3 of the text without white space at its end
  bool of_last_turn;
  std::vector<Edit> edits;
};

constexpr std::string_view kToolRole = R"({%- elif message.role == "tool" %})";
constexpr std::string_view kEndBeforeTools = "{%- endgeneration %}\n    @";

/// Qwen 3.5 and later: every turn with its reasoning, which the published one drops before the last question.
std::vector<Edit> with_reasoning(std::string_view condition) {
  return {{condition, "{%- if message.tool_calls and",
           "{{- '<|im_start|>' + message.role + '\\n' }}\n{%- generation %}\n"
           "{{- '<think>\\n' + reasoning_content + '\\n</think>\\n\\n' + content }}\n"},
          {kToolRole, "\n", kEndBeforeTools}};
}

/// Phi-3 and 3.5: the end of text belongs to a last turn of the assistant.
std::vector<Edit> with_end_of_text() {
  return {{"{{'<|assistant|>\n' + message['content']", "{% endif %}{% endfor %}",
           "{{'<|assistant|>\n'}}{% generation %}{{ message['content'] + '<|end|>\n'}}{% endgeneration %}"},
          {"{% else %}{{ eos_token }}", "{% endif %}",
           "{% elif messages[-1]['role'] == 'assistant' %}{% generation %}{{ eos_token }}{% endgeneration %}@"}};
}

/// Mistral 7B 0.3 and Nemo: the message of the system goes to the last question, not only while it is unanswered.
std::vector<Edit> with_system(std::string_view answer) {
  return {{"loop.last and system_message", " is defined", "message == user_messages[-1] and system_message"},
          {"{{- \"[TOOL_CALLS]", "{%- elif message[\"role\"] == \"assistant\" %}",
           "{%- generation %}\n@{%- endgeneration %}\n"},
          {answer, "\n", "{%- generation %}\n@\n{%- endgeneration %}"}};
}

const std::vector<Published>& published() {
  static const std::vector<Published> kAll = {
      {"Qwen 2.5",
       {0x2469c9508f79506e},
       false,
       {{R"( or (message.role == "assistant" and not message.tool_calls))", " %}", ""},
        {R"({%- elif message.role == "assistant" %})", "{%- for tool_call in message.tool_calls %}",
         "{%- elif message.role == \"assistant\" %}{{- '<|im_start|>' + message.role }}{%- generation %}\n"
         "{%- if message.content or not message.tool_calls %}{{- '\\n' + message.content }}{%- endif %}\n"},
        {kToolRole, "\n", kEndBeforeTools}}},
      {"Qwen 3",
       {0xc9e0155c80737cf2, 0x6e4e39fcc24ff62e},
       false,
       {{"{%- if loop.index0 > ns.last_query_index %}", "{%- if message.tool_calls %}",
         "{{- '<|im_start|>' + message.role + '\\n' }}\n{%- generation %}\n"
         "{{- '<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}\n"},
        {kToolRole, "\n", kEndBeforeTools}}},
      {"Qwen 3 Instruct 2507",
       {0x8fb5d937b1e8f5d0},
       false,
       {{"{{- '<|im_start|>' + message.role + '\\n' + content }}", "\n",
         "{{- '<|im_start|>' + message.role + '\\n' }}\n{%- generation %}\n{{- content }}"},
        {kToolRole, "\n", kEndBeforeTools}}},
      {"Qwen 3.5",
       {0x0ed0a1d8b9d7e0be, 0xea7113e61d9a8bcf},
       false,
       with_reasoning("{%- if loop.index0 > ns.last_query_index %}")},
      {"Qwen 3.6", {0x579b2c2e5ecdae85}, false, with_reasoning("{%- if (preserve_thinking is defined")},
      {"Qwen 3.8", {0xb488fed7dae5f0ed}, false, with_reasoning("{%- if preserve_thinking is undefined")},
      {"Phi-3", {0x82fc89c04c54ba66}, false, with_end_of_text()},
      {"Phi-3.5", {0xcd8aff863abd4554}, false, with_end_of_text()},
      {"Mistral 7B 0.3 (axolotl's)", {0xb091cda72d40416a}, false, with_system("{{- \" \" + content|trim + eos_token")},
      {"Mistral Nemo (axolotl's)", {0x9d869133a4d56603}, false, with_system("{{- content + eos_token")},
      {"Llama 3",
       {0x9799ad6e2dea0594},
       false,
       {{"{% set content = '<|start_header_id|>'", "{% endfor %}",
         "{% if loop.index0 == 0 %}{{ bos_token }}{% endif %}"
         "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}{% if message['role'] == 'assistant' "
         "%}"
         "{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
         "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}"}}},
      {"Gemma",
       {0x2c2e86beabccd2a4},
       false,
       {{"{{ '<start_of_turn>' + role + '\n", "{% endfor %}",
         "{{ '<start_of_turn>' + role + '\n' }}{% if message['role'] == 'assistant' %}"
         "{% generation %}{{ message['content'] | trim + '<end_of_turn>\n' }}{% endgeneration %}"
         "{% else %}{{ message['content'] | trim + '<end_of_turn>\n' }}{% endif %}"}}},
      {"Gemma 3",
       {0xd9c620dcaf86f38d},
       false,
       {{"{%- if message['content'] is string -%}\n        {{ message", "{%- endfor -%}\n{%- if add_generation_prompt",
         "{%- if message['role'] == 'assistant' -%}\n{%- generation -%}\n@{%- endgeneration -%}\n{%- else -%}\n"
         "@{%- endif -%}\n"}}},
      {"DeepSeek R1's distilled models",
       {0x55b25ceb4910aa64},
       true,
       {{"{%- for tool in message['tool_calls']%}",
         "{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}",
         "{%- generation %}@{%- endgeneration %}"},
        {"{{'<｜tool▁outputs▁end｜>' + message['content']", "{%- else %}{% set content",
         "{%- generation %}@{%- endgeneration %}"},
        {"{% set content = message['content'] %}{% if '</think>' in content %}",
         "{%- endif %}{%- endif %}{%- if message['role'] == 'tool' %}",
         "{%- generation %}{{'<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- endgeneration "
         "%}"}}}};
  return kAll;
}

uint64_t hash_of(std::string_view text) {
  text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
  return xxh3(std::as_bytes(std::span(text.data(), text.size())));
}

std::string edited(std::string text, const Edit& edit) {
  const size_t from = text.find(edit.from);
  const size_t to = from == std::string::npos ? from : text.find(edit.to, from + edit.from.size());
  require(to != std::string::npos, ErrorKind::data, "a template with a known hash lacks \"{}\" or \"{}\"", edit.from,
          edit.to);
  const std::string replaced = text.substr(from, to - from);
  std::string with(edit.with);
  for (size_t at = with.find('@'); at != std::string::npos; at = with.find('@', at + replaced.size()))
    with.replace(at, 1, replaced);
  return text.replace(from, to - from, with);
}

}  // namespace

std::optional<TrainingVersion> training_version(const TemplateSource& source) {
  const uint64_t hash = hash_of(source.text);
  for (const Published& one : published()) {
    if (std::ranges::find(one.hashes, hash) == one.hashes.end()) continue;
    std::string text = source.text;
    for (const Edit& edit : one.edits) text = edited(std::move(text), edit);
    return TrainingVersion{
        .model = std::string(one.model),
        .source = {std::move(text), fmt::format("{} (its training version)", source.where)},
        .of_last_turn = one.of_last_turn,
    };
  }
  return std::nullopt;
}

TrainingFormat::TrainingFormat(const ChatFiles& files, const TemplateSource& source)
    : own_(files, source), facts_(fmt::format("template {} {}\n", source.text.size(), source.text)) {
  const auto version = training_version(source);
  if (!version) return;
  training_.emplace(files, version->source);
  of_last_turn_ = version->of_last_turn;
  facts_ += fmt::format("training version {}\n", version->source.text);
  note_ = fmt::format(
      "{} is the published template of {}: conversations of which every turn counts are written by its training "
      "version, which writes and marks each turn as the last one; exports keep the published one",
      source.where, version->model);
}

const ChatFormat& TrainingFormat::format_for(const Conversation& conversation, LossOn loss_on) const {
  const bool of_every_turn = loss_on == LossOn::assistant && conversation.prompt == 0;
  const bool trains = training_ && loss_on != LossOn::all && (of_every_turn || of_last_turn_);
  return trains ? *training_ : own_;
}

void TrainingFormat::set_time(const std::tm& now) {
  own_.set_time(now);
  if (training_) training_->set_time(now);
}

}  // namespace trireme::chat
