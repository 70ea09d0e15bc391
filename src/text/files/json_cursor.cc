#include "text/files/json_cursor.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "text/unicode.h"

namespace trireme {
namespace {

[[noreturn]] void refuse(const char* what) { throw JsonSyntax(what); }

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

/// Text from `at` to the next quote, backslash or control character, or to the end.
size_t find_string_end(std::string_view text, size_t at) {
  constexpr uint64_t kOnes = 0x0101010101010101, kHigh = 0x80 * kOnes;
  const auto zero_bytes = [](uint64_t word) { return (word - kOnes) & ~word & kHigh; };
  while (at + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    const uint64_t control = (word - 0x20 * kOnes) & ~word & kHigh;
    const uint64_t found = zero_bytes(word ^ '"' * kOnes) | zero_bytes(word ^ '\\' * kOnes) | control;
    if (found != 0) return at + static_cast<size_t>(std::countr_zero(found)) / 8;
    at += 8;
  }
  while (at < text.size() && text[at] != '"' && text[at] != '\\' && static_cast<uint8_t>(text[at]) >= 0x20) ++at;
  return at;
}

uint32_t hexadecimal(std::string_view digits) {
  if (digits.size() != 4) refuse("a \\u without its digits");
  uint32_t value = 0;
  for (const char c : digits) {
    const auto lower = static_cast<char>(c | 0x20);
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (lower < 'a' || lower > 'f')) refuse("a \\u without its digits");
    value = value * 16 + static_cast<uint32_t>(digit ? c - '0' : lower - 'a' + 10);
  }
  return value;
}

}  // namespace

char JsonCursor::peek() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonCursor::take(char c) {
  if (peek() != c || at_ == text_.size()) refuse("an unexpected character");
  ++at_;
}

bool JsonCursor::next(char closing, bool& first) {
  if (peek() == closing) {
    ++at_;
    return false;
  }
  if (!first) {
    take(',');
    if (peek() == closing) refuse("a comma before a bracket");
  }
  first = false;
  return true;
}

std::string_view JsonCursor::string() {
  take('"');
  const size_t begin = at_;
  at_ = find_string_end(text_, at_);
  if (at_ == text_.size() || static_cast<uint8_t>(text_[at_]) < 0x20) refuse("an unterminated string");
  if (text_[at_] == '\\') return unescape(begin);
  return text_.substr(begin, at_++ - begin);
}

std::string_view JsonCursor::unescape(size_t begin) {
  buffer_.assign(text_, begin, at_ - begin);
  while (text_[at_] == '\\') {
    if (at_ + 1 == text_.size()) refuse("an unterminated string");
    const char c = text_[at_ + 1];
    at_ += 2;
    static constexpr std::string_view kEscapes = "\"\\/bfnrt", kStandFor = "\"\\/\b\f\n\r\t";
    const size_t index = kEscapes.find(c);
    if (index != std::string_view::npos) {
      buffer_.push_back(kStandFor[index]);
    } else if (c == 'u') {
      uint32_t code = hexadecimal(text_.substr(at_, 4));
      at_ += 4;
      if (code >= 0xD800 && code < 0xDC00) {
        if (text_.substr(at_, 2) != "\\u") refuse("half a surrogate pair");
        const uint32_t low = hexadecimal(text_.substr(at_ + 2, 4));
        if (low < 0xDC00 || low > 0xDFFF) refuse("half a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        at_ += 6;
      } else if (code >= 0xDC00 && code <= 0xDFFF) {
        refuse("half a surrogate pair");
      }
      append_utf8(code, buffer_);
    } else {
      refuse("an unknown escape");
    }
    const size_t end = find_string_end(text_, at_);
    buffer_.append(text_, at_, end - at_);
    at_ = end;
    if (at_ == text_.size() || static_cast<uint8_t>(text_[at_]) < 0x20) refuse("an unterminated string");
  }
  ++at_;
  return buffer_;
}

std::string_view JsonCursor::key() {
  const std::string_view name = string();
  take(':');
  return name;
}

bool JsonCursor::at_number() {
  const char c = peek();
  return c == '-' || (c >= '0' && c <= '9');
}

std::string_view JsonCursor::number() {
  if (!at_number()) refuse("not a number");
  const size_t begin = at_;
  const auto digits = [&] {
    const size_t before = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == before) refuse("a number without digits");
    return at_ - before;
  };
  const auto at = [&](char c) { return at_ < text_.size() && text_[at_] == c; };
  if (at('-')) ++at_;
  const bool zero = at('0');
  if (digits() > 1 && zero) refuse("a number that begins with 0");
  if (at('.')) {
    ++at_;
    digits();
  }
  if (at('e') || at('E')) {
    ++at_;
    if (at('+') || at('-')) ++at_;
    digits();
  }
  return text_.substr(begin, at_ - begin);
}

std::string_view JsonCursor::skip() {
  const char first = peek();
  const size_t begin = at_;
  if (first == '"') {
    string();
  } else if (first == '{' || first == '[') {
    size_t depth = 0;
    do {
      if (at_ == text_.size()) refuse("an unclosed bracket");
      const char c = text_[at_];
      if (c == '"') {
        for (++at_; (at_ = find_string_end(text_, at_)) < text_.size() && text_[at_] != '"';)
          at_ += text_[at_] == '\\' ? 2 : 1;
        if (at_ >= text_.size()) refuse("an unterminated string");
      } else if (c == '{' || c == '[') {
        ++depth;
      } else if (c == '}' || c == ']') {
        --depth;
      }
      ++at_;
    } while (depth > 0);
  } else {
    while (at_ < text_.size() && !is_space(text_[at_]) &&
           std::string_view(",]}").find(text_[at_]) == std::string_view::npos)
      ++at_;
    if (at_ == begin) refuse("a missing value");
  }
  return text_.substr(begin, at_ - begin);
}

}  // namespace trireme
