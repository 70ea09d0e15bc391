#include "data/json_lines.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

namespace trireme {

static_assert(DocumentChunk::kPadding >= simdjson::SIMDJSON_PADDING);

struct JsonLines::Parser {
  simdjson::dom::parser json;
};

namespace {

/// What is wrong with the line, or nothing and the text.
std::string find_text(simdjson::dom::parser& parser, std::string_view line, std::string_view key,
                      std::string_view& text) {
  simdjson::dom::element root;
  if (const auto error = parser.parse(line.data(), line.size(), false).get(root))
    return fmt::format("not valid JSON: {}", simdjson::error_message(error));
  simdjson::dom::object object;
  if (root.get(object)) return "the line is no JSON object";
  bool found = false;
  for (const auto field : object) {
    if (field.key != key) continue;
    if (found) return fmt::format("\"{}\" stands twice", key);
    found = true;
    if (field.value.get(text)) return fmt::format("\"{}\" is no string", key);
  }
  return found ? std::string() : fmt::format("\"{}\" is missing", key);
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

JsonLines::JsonLines(std::string key) : key_(std::move(key)), parser_(std::make_unique<Parser>()) {}
JsonLines::JsonLines(JsonLines&&) noexcept = default;
JsonLines::~JsonLines() = default;

void JsonLines::parse(const DocumentChunk& chunk, const Handlers& handlers) {
  const std::string_view bytes = chunk.text();
  uint64_t number = chunk.first_line;
  for (size_t at = 0; at < bytes.size(); ++number) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = bytes.substr(at, end - at);
    at = end + 1;
    if (is_blank(line)) continue;
    std::string_view text;
    std::string reason = find_text(parser_->json, line, key_, text);
    if (reason.empty())
      handlers.document(text);
    else
      handlers.fault(number, std::move(reason));
  }
}

}  // namespace trireme
