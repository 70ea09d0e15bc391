#include "data/prepare/json_lines.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "base/error.h"

namespace trireme {

static_assert(DocumentChunk::kPadding >= simdjson::SIMDJSON_PADDING);

struct JsonLines::Parser {
  simdjson::dom::parser json;
};

namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

}  // namespace

JsonLines::JsonLines(std::vector<std::string> keys)
    : keys_(std::move(keys)), texts_(keys_.size()), parser_(std::make_unique<Parser>()) {}
JsonLines::JsonLines(JsonLines&&) noexcept = default;
JsonLines::~JsonLines() = default;

/// Fills texts_, or returns the fault of the line.
std::string JsonLines::find_texts(std::string_view line) {
  simdjson::dom::element root;
  if (const auto error = parser_->json.parse(line.data(), line.size(), false).get(root))
    return fmt::format("not valid JSON: {}", simdjson::error_message(error));
  simdjson::dom::object object;
  if (root.get(object)) return "the line is not a JSON object";
  texts_.assign(keys_.size(), std::nullopt);
  for (const auto field : object) {
    const auto key = std::find(keys_.begin(), keys_.end(), field.key);
    if (key == keys_.end()) continue;
    std::optional<std::string_view>& text = texts_[static_cast<size_t>(key - keys_.begin())];
    if (text) return fmt::format("\"{}\" appears twice", *key);
    text.emplace();
    if (field.value.get(*text)) return fmt::format("\"{}\" is not a string", *key);
  }
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!texts_[i]) return fmt::format("\"{}\" is missing", keys_[i]);
  }
  return {};
}

void JsonLines::parse(const DocumentChunk& chunk, const Handlers& handlers) {
  const std::string_view bytes = chunk.text();
  uint64_t number = chunk.first_line;
  for (size_t at = 0; at < bytes.size(); ++number) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const std::string_view line = bytes.substr(at, end - at);
    at = end + 1;
    if (is_blank(line)) continue;
    std::string reason = find_texts(line);
    if (!reason.empty()) {
      handlers.fault(number, std::move(reason));
      continue;
    }
    try {
      for (size_t i = 0; i < keys_.size(); ++i) handlers.document(i, *texts_[i]);
    } catch (const Error& e) {  // the text's error does not have its place
      if (e.kind() != ErrorKind::data) throw;
      fail(ErrorKind::data, "{}, line {}: {}", *chunk.name, number, e.what());
    }
  }
}

}  // namespace trireme
