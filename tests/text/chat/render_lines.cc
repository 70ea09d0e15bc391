// Renders templates for scripts/prove_chat_templates: reads JSON lines {"template": text, "variables": {...}} and
// writes {"text": text, "generated": [[begin, end], ...]} in characters, or {"error": message}. strftime_now() says
// 2024-02-29 13:05:09. With "training": true it renders the template's training version, or writes {"unknown": true}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/json_text.h"
#include "tests/text/chat/fixed_time.h"
#include "text/chat/chat_template.h"
#include "text/chat/training_version.h"
#include "text/unicode.h"

namespace {

trireme::Json rendered(const trireme::Json& line) {
  using namespace trireme;
  try {
    chat::TemplateSource source{line.at("template").get<std::string>(), "template"};
    if (line.value("training", false)) {
      auto version = chat::training_version(source);
      if (!version) return {{"unknown", true}};
      source = std::move(version->source);
    }
    const chat::ChatTemplate made(source.text, source.where);
    const chat::Rendered result = made.render(line.at("variables"), trireme::chat::fixed_time());
    Json spans = Json::array();
    for (const auto& [begin, end, message] : result.generated) {
      const std::string_view text = result.text;
      spans.push_back({count_code_points(text.substr(0, begin)), count_code_points(text.substr(0, end))});
    }
    return {{"text", result.text}, {"generated", spans}};
  } catch (const Error& error) {
    return {{"error", error.what()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);)
    std::cout << trireme::dump_json(rendered(trireme::parse_json(line, "standard input"))) << "\n";
  return 0;
}
