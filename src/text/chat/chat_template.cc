#include "text/chat/chat_template.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/chat/interpreter.h"
#include "text/chat/lexer.h"
#include "text/chat/python_text.h"

namespace trireme::chat {
namespace {

constexpr size_t kMostTemplateBytes = size_t{1} << 20;  // the longest published ones have 20 kB

std::tm local_time() {
  const std::time_t seconds = std::time(nullptr);
  std::tm now{};
  localtime_r(&seconds, &now);
  return now;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string where, const ChatLimits& limits)
    : where_(std::move(where)), limits_(limits) {
  require(source.size() <= kMostTemplateBytes, ErrorKind::data, "{}: the chat template has {} bytes, the limit is {}",
          where_, source.size(), kMostTemplateBytes);
  if (const auto invalid = first_invalid(source))
    fail(ErrorKind::data, "{}: the chat template is not UTF-8 at byte {}", where_, *invalid);
  try {
    parsed_ = std::make_unique<const ParsedTemplate>(parse_template(source));
  } catch (const SyntaxFault& fault) {
    fail(ErrorKind::data, "{} line {}: {}", where_, fault.line, fault.message);
  }
}

ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

bool ChatTemplate::marks_generation() const { return parsed_->marks_generation; }

Rendered ChatTemplate::render(const Json& variables, const std::optional<std::tm>& now) const {
  Machine machine{Budget(limits_), now ? *now : local_time()};
  std::optional<Interpreter> interpreter;
  try {
    interpreter.emplace(*parsed_, machine, [&](const std::string& name) -> std::optional<Value> {
      const auto at = variables.find(name);
      if (at == variables.end()) return std::nullopt;
      return from_json(*at, machine.budget);
    });
    interpreter->run();
  } catch (const Fault& fault) {
    fail(ErrorKind::data, "{} line {}: {}", where_, interpreter ? interpreter->line() : 1, fault.message);
  }
  return {interpreter->take_text(), interpreter->take_generated()};
}

}  // namespace trireme::chat
