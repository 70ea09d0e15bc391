#include "checkpoint/gguf/modelfile.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/huggingface/generation_settings.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer.h"

namespace trireme {
namespace {

constexpr int64_t kUsualContext = 8192;  ///< ollama reserves memory for all of it
// Contents that no template has.
constexpr const char *kSystem = "3f8c1d", *kUser[] = {"7a2e90", "5b61cf", "c04d7e"},
                     *kAssistant[] = {"9d35b8", "e6170a"};

/// What a template writes for a conversation; nothing if it refuses it.
class Renders {
 public:
  explicit Renders(const chat::ChatFiles& files)
      : tokens_(files.tokens), template_(files.templates.at("default").text, files.templates.at("default").where) {}

  /// Alternating turns, of the user first. The first token, which ollama adds itself, is left out.
  std::optional<std::string> operator()(bool system, int turns, bool prompt) const {
    Json messages = Json::array();
    if (system) messages.push_back({{"role", "system"}, {"content", kSystem}});
    for (int i = 0; i < turns; ++i) {
      const bool user = i % 2 == 0;
      messages.push_back({{"role", user ? "user" : "assistant"}, {"content", (user ? kUser : kAssistant)[i / 2]}});
    }
    Json variables = {{"messages", messages}, {"add_generation_prompt", prompt}};
    for (const auto& [name, token] : tokens_) variables[name] = token;
    try {
      std::string text = template_.render(variables).text;
      const auto begin = tokens_.find("bos_token");
      if (begin != tokens_.end() && !begin->second.empty() && text.starts_with(begin->second))
        text.erase(0, begin->second.size());
      return text;
    } catch (const Error&) {
      return {};
    }
  }

 private:
  const std::map<std::string, std::string>& tokens_;
  chat::ChatTemplate template_;
};

/// What is between two contents; nothing if they are not there in this order.
std::optional<std::string> between(const std::string& text, std::string_view first, std::string_view second) {
  const size_t begin = first.empty() ? 0 : text.find(first), end = second.empty() ? text.size() : text.find(second);
  if (begin == std::string::npos || end == std::string::npos || begin + first.size() > end) return {};
  return text.substr(begin + first.size(), end - begin - first.size());
}

/// Removes `part` from the end of the text; false if it is not there.
bool take_end(std::string& text, const std::string& part) {
  if (!text.ends_with(part)) return false;
  text.resize(text.size() - part.size());
  return true;
}
/// Removes `part`, with which the text begins.
void take_begin(std::string& text, const std::string& part) { text.erase(0, part.size()); }

/// As to_ollama()'s template writes it.
std::string written(const TurnTexts& t, bool system, int turns) {
  std::string text = system ? *t.system_before + kSystem + t.system_after : t.without_system;
  for (int i = 0; i < turns; ++i)
    text += i % 2 == 0 ? t.user_before + kUser[i / 2] + t.user_after
                       : t.assistant_before + kAssistant[i / 2] + t.assistant_after;
  return text + t.prompt;
}

std::string quoted(std::string text) {
  for (size_t at = 0; (at = text.find('"', at)) != std::string::npos; at += 2) text.insert(at, 1, '\\');
  return '"' + text + '"';
}

}  // namespace

std::optional<TurnTexts> turn_texts(const chat::ChatFiles& files, std::string& why_not) {
  const auto other = [&](const char* reason) {
    why_not = reason;
    return std::optional<TurnTexts>();
  };
  if (!files.templates.contains("default")) return other("there is none");
  std::unique_ptr<const Renders> made;
  try {
    made = std::make_unique<const Renders>(files);
  } catch (const Error& error) {
    why_not = error.what();
    return {};
  }
  const Renders& render = *made;
  const auto one = render(false, 1, false), two = render(false, 2, false), three = render(false, 3, true),
             first = render(false, 1, true), with_system = render(true, 1, true);
  if (!one || !two || !three || !first) return other("it refuses a plain conversation");
  TurnTexts t;
  auto user_after = between(*one, kUser[0], ""), assistant_after = between(*two, kAssistant[0], "");
  auto user_before = between(*three, kAssistant[0], kUser[1]),
       assistant_before = between(*three, kUser[0], kAssistant[0]), prompt = between(*three, kUser[1], ""),
       begin = between(*one, "", kUser[0]);
  constexpr const char* kIrregular = "what it writes around a turn depends on more than the turn's role";
  if (!user_after || !assistant_after || !user_before || !assistant_before || !prompt || !begin)
    return other(kIrregular);
  // Some end the last turn in another way: then what belongs to which turn follows from what repeats.
  if (!assistant_before->starts_with(*user_after) || !prompt->starts_with(*user_after))
    user_after->assign(assistant_before->begin(), std::ranges::mismatch(*assistant_before, *prompt).in1);
  if (!user_before->starts_with(*assistant_after)) {
    const auto same = std::mismatch(user_before->rbegin(), user_before->rend(), begin->rbegin(), begin->rend()).first;
    assistant_after->assign(user_before->begin(), same.base());
  }
  take_begin(*user_before, *assistant_after);
  take_begin(*assistant_before, *user_after);
  take_begin(*prompt, *user_after);
  if (!take_end(*begin, *user_before)) return other(kIrregular);
  t.user_before = *user_before, t.user_after = *user_after, t.prompt = *prompt, t.without_system = *begin;
  t.assistant_before = *assistant_before, t.assistant_after = *assistant_after;
  if (with_system && with_system->find(kSystem) != std::string::npos) {
    auto before = between(*with_system, "", kSystem), after = between(*with_system, kSystem, kUser[0]);
    if (!before || !after || !take_end(*after, *user_before))
      return other("it puts the system text into the first turn");
    t.system_before = *before, t.system_after = *after;
  }
  for (const bool system : {false, true}) {
    if (system && !t.system_before) break;
    for (const int turns : {1, 3, 5}) {
      if (render(system, turns, true) != written(t, system, turns)) return other(kIrregular);
    }
  }
  for (const std::string& text : {t.system_before.value_or(""), t.system_after, t.without_system, t.user_before,
                                  t.user_after, t.assistant_before, t.assistant_after, t.prompt})
    if (text.find("{{") != std::string::npos || text.find("\"\"\"") != std::string::npos)
      return other("it has text that ollama's language reserves");
  return t;
}

std::string TurnTexts::to_ollama() const {
  std::string text;
  if (system_before) {
    text = "{{ if .System }}" + *system_before + "{{ .System }}" + system_after;
    if (!without_system.empty()) text += "{{ else }}" + without_system;
    text += "{{ end }}";
  } else {
    text = without_system;
  }
  return text + "{{ range .Messages }}{{ if eq .Role \"user\" }}" + user_before + "{{ .Content }}" + user_after +
         "{{ else if eq .Role \"assistant\" }}" + assistant_before + "{{ .Content }}" + assistant_after +
         "{{ end }}{{ end }}" + prompt;
}

std::string ollama_modelfile(const std::string& file, const std::string& tokenizer_json, const std::string& generation,
                             int64_t context) {
  std::string text = "FROM ./" + file + "\n";
  constexpr const char* kWhere = "the model's tokenizer";
  const GenerationSettings settings = generation_settings(generation, "the model's generation settings");
  const chat::ChatFiles files =
      chat::chat_files_of(kept_tokenizer_files(generation, "the model's generation settings"), kWhere);
  std::string why_not;
  if (const auto turns = turn_texts(files, why_not)) {
    text += "TEMPLATE \"\"\"" + turns->to_ollama() + "\"\"\"\n";
  } else if (files.templates.contains("default")) {
    log::warning(
        "the Modelfile has no TEMPLATE: {} ({}); ollama answers well only if it knows the model's template by itself: "
        "compare an answer with that of `trireme sample --chat`",
        why_not, files.templates.at("default").where);
  }
  std::vector<std::string> stops;
  const auto tokenizer = tokenizer_from_json(tokenizer_json, kWhere);
  for (const TokenId& id : settings.end)
    if (id < tokenizer->vocabulary_size()) stops.push_back(tokenizer->decode(std::span(&id, 1)));
  for (const std::string& stop : stops)
    if (!stop.empty()) text += "PARAMETER stop " + quoted(stop) + "\n";
  return text + fmt::format("PARAMETER num_ctx {}\n", std::min(context, kUsualContext));
}

}  // namespace trireme
