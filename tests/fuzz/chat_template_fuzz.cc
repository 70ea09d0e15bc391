// Any text as a chat template: Error::data, or a text within its limits.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trireme;
  static const Json variables = parse_json(
      R"({"messages": [{"role": "user", "content": " Hi <b> é "}, {"role": "assistant", "content": "1",
      "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, null, true]}}}]}], "tools": null,
      "bos_token": "<s>", "n": 7, "add_generation_prompt": true})",
      "variables");
  const chat::ChatLimits limits{.steps = 100'000, .text = 1 << 22, .output = 1 << 20, .items = 10'000};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const chat::Rendered rendered = chat::ChatTemplate(text, "fuzzed", limits).render(variables, std::tm{});
    if (rendered.text.size() > limits.output) std::abort();
    for (const auto& [begin, end, message] : rendered.generated) {
      if (begin > end || end > rendered.text.size()) std::abort();
    }
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::data) std::abort();
  }
  return 0;
}
