#include "data/prepare/document_chunks.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/prepare/text_border.h"

namespace trireme {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Documents are long, so searching for line ends is several times faster than checking each byte.
uint64_t count_lines(std::string_view text) {
  uint64_t lines = 0;
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ++lines;
  return lines;
}

}  // namespace

DocumentChunks::DocumentChunks(const std::vector<InputFile>& files, Cut cut, Options options)
    : cut_(std::move(cut)),
      options_(std::move(options)),
      parts_(files, options_.columns, options_.from, options_.most_bytes),
      resumed_(options_.from.offset > 0) {}

void DocumentChunks::open_part() {
  open_ = true;
  at_end_ = false;
  line_ = 1;
  given_ = characters_ = column_ = 0;
  rest_.clear();
  if (!std::exchange(resumed_, false)) return;
  parts_.source().skip(options_.from.offset);
  given_ = options_.from.offset;
  characters_ = options_.from.characters;
  line_ = options_.from.line;
}

bool DocumentChunks::next(DocumentChunk& chunk) {
  while (open_ || parts_.next()) {
    if (!open_) open_part();
    chunk.name = parts_.name();
    chunk.kind = parts_.kind();
    chunk.file = parts_.file();
    const bool found = chunk.kind == InputKind::text ? next_text(chunk) : next_lines(chunk);
    chunk.first_byte = given_;
    given_ += chunk.size;
    chunk.progress = parts_.consumed();
    chunk.after = {parts_.file(), parts_.member(), given_, line_, characters_};
    if (at_end_ && rest_.empty()) {
      open_ = false;
      chunk.after =
          parts_.is_archive() ? InputPlace{parts_.file(), parts_.member() + 1} : InputPlace{parts_.file() + 1};
    }
    if (found) return true;
  }
  return false;
}

/// Reads until the chunk has `to` bytes; false if the source ended before. Starts with the rest of the previous chunk.
bool DocumentChunks::fill(DocumentChunk& chunk, size_t to) {
  if (chunk.bytes.size() < to + DocumentChunk::kPadding) chunk.bytes.resize(to + DocumentChunk::kPadding);
  while (chunk.size < to && !at_end_) {
    const size_t n = parts_.source().read(chunk.bytes.data() + chunk.size, to - chunk.size);
    chunk.size += n;
    at_end_ = n == 0;
  }
  return chunk.size >= to;
}

void DocumentChunks::keep_rest(DocumentChunk& chunk, size_t end) {
  rest_.assign(chunk.bytes, end, chunk.size - end);
  chunk.size = end;
}

/// The next size to read if `bytes` has no place to cut.
size_t DocumentChunks::larger(const DocumentChunk& chunk, size_t bytes) const {
  const bool lines = chunk.kind == InputKind::json_lines;
  require(bytes <= options_.most_bytes, ErrorKind::data,
          "{}{}: {} is longer than {:.4g} MiB, the limit of one document; raise it with --max-document MIB",
          *chunk.name, lines ? fmt::format(", line {}", line_) : fmt::format(", byte {}", given_),
          lines ? "the line" : "the text, which the tokenizer cannot cut there,",
          static_cast<double>(options_.most_bytes) / (1 << 20));
  return std::min<size_t>(2 * bytes, options_.most_bytes + 1);
}

/// The next chunk begins with the rest of the last one.
void DocumentChunks::begin_chunk(DocumentChunk& chunk) {
  chunk.bytes.resize(std::max(chunk.bytes.size(), rest_.size() + DocumentChunk::kPadding));
  std::copy(rest_.begin(), rest_.end(), chunk.bytes.begin());
  chunk.size = rest_.size();
  chunk.first_line = line_;
  rest_.clear();
}

/// Ends the chunk at the border if that is in its first `end` bytes, else counts their characters. whole: the bytes end
/// at a character boundary.
bool DocumentChunks::ends_at_border(DocumentChunk& chunk, size_t end, bool whole) {
  if (characters_ >= options_.border) return false;
  const std::string_view text = chunk.text().substr(0, end);
  const uint64_t left = options_.border - characters_, characters = count_characters(text);
  const bool found = left < characters || (whole && left == characters);
  if (found) keep_rest(chunk, left < characters ? find_character(text, left) : end);
  if (found || whole) characters_ += std::min(left, characters);
  return found;
}

bool DocumentChunks::next_text(DocumentChunk& chunk) {
  chunk.first_column = column_;
  const bool found = cut_text(chunk);
  const size_t last_line = chunk.text().rfind('\n') + 1;  // npos + 1: the chunk's first line
  column_ = (last_line == 0 ? column_ : 0) + count_characters(chunk.text().substr(last_line));
  line_ += count_lines(chunk.text());
  return found;
}

bool DocumentChunks::cut_text(DocumentChunk& chunk) {
  begin_chunk(chunk);
  chunk.ends_document = true;
  size_t near = options_.target_bytes - options_.target_bytes / 16;  // words end often: the last sixteenth has one
  for (size_t to = options_.target_bytes;; to = larger(chunk, to)) {
    const bool full = fill(chunk, to);
    const size_t end = full ? cut_(chunk.text(), near) : chunk.size;
    if (ends_at_border(chunk, end, !full || end < chunk.size) || !full) return true;
    if (end < chunk.size) {
      keep_rest(chunk, end);
      chunk.ends_document = false;
      return true;
    }
    near = chunk.size;
  }
}

bool DocumentChunks::next_lines(DocumentChunk& chunk) {
  begin_chunk(chunk);
  for (size_t to = std::max(options_.target_bytes, chunk.size); fill(chunk, to); to = larger(chunk, to)) {
    const size_t last = chunk.text().rfind('\n');
    if (last != std::string_view::npos) {
      keep_rest(chunk, last + 1);
      break;
    }
  }
  if (chunk.first_line == 1 && chunk.text().starts_with(kByteOrderMark))
    std::fill_n(chunk.bytes.begin(), kByteOrderMark.size(), ' ');
  line_ += count_lines(chunk.text());
  return chunk.size > 0 || given_ == 0;
}

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
