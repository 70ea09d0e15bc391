#include "text/chat/python_text.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "text/unicode.h"

namespace trireme::chat {
namespace {

/// The last character of a text that is not empty.
Decoded last_of(std::string_view text) {
  size_t start = text.size() - 1;
  while (start > 0 && (static_cast<uint8_t>(text[start]) & 0xC0) == 0x80) --start;
  return decode_utf8(text.data() + start, text.data() + text.size());
}

Decoded first_of(std::string_view text) { return decode_utf8(text.data(), text.data() + text.size()); }

/// True for a boundary of lines of str.splitlines().
bool ends_line(char32_t code) {
  return (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
         code == 0x2029;
}

const SpecialCase* special_case(char32_t code) {
  const auto cases = special_cases();
  const auto at = std::ranges::lower_bound(cases, code, {}, &SpecialCase::code);
  return at != cases.end() && at->code == code ? &*at : nullptr;
}

int category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_cased(char32_t code) {
  const int category = category_of(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

/// Characters that do not separate a sigma from the letters around it.
bool is_case_ignorable(char32_t code) {
  static constexpr std::u32string_view kPunctuation =
      U"'.:^`\u00A8\u00AD\u00AF\u00B4\u00B7\u00B8\u2018\u2019\u2024\u2027";
  const int category = category_of(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_ME || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_LM || category == UTF8PROC_CATEGORY_SK ||
         kPunctuation.find(code) != std::u32string_view::npos;
}

/// Whether the sigma between these texts ends its word.
bool ends_word(std::string_view before, std::string_view after) {
  while (!before.empty() && is_case_ignorable(last_of(before).code)) before.remove_suffix(last_of(before).length);
  if (before.empty() || !is_cased(last_of(before).code)) return false;
  while (!after.empty() && is_case_ignorable(first_of(after).code)) after.remove_prefix(first_of(after).length);
  return after.empty() || !is_cased(first_of(after).code);
}

/// Appends the lower case of the character at `place` of `text`.
void append_lower(std::string_view text, size_t place, Decoded character, std::string& out) {
  constexpr char32_t kSigma = 0x3A3, kDottedI = 0x130;
  if (character.code == kSigma) {
    const bool final = ends_word(text.substr(0, place), text.substr(place + character.length));
    out += final ? "\u03C2" : "\u03C3";
  } else if (character.code == kDottedI) {
    out += "i\u0307";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character.code))), out);
  }
}

void append_title(char32_t code, std::string& out) {
  if (const SpecialCase* special = special_case(code)) {
    out += special->title;
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))), out);
  }
}

/// Calls each(place, character) for the characters of a text.
template <class Each>
void for_each_character(std::string_view text, Each each) {
  const char* const end = text.data() + text.size();
  for (size_t place = 0; place < text.size();) {
    const Decoded character = decode_utf8(text.data() + place, end);
    each(place, character);
    place += character.length;
  }
}

std::vector<std::string_view> split_at_spaces(std::string_view text, int64_t limit) {
  std::vector<std::string_view> parts;
  text = strip(text, std::nullopt, Sides::left);
  while (!text.empty()) {
    if (limit == 0) {
      parts.push_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      const Decoded next = first_of(text.substr(end));
      if (is_space(next.code)) break;
      end += next.length;
    }
    parts.push_back(text.substr(0, end));
    text = strip(text.substr(end), std::nullopt, Sides::left);
    --limit;
  }
  return parts;
}

bool is_printable(char32_t code) {
  if (code == ' ') return true;
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

}  // namespace

bool is_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20) || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
         code == 0x205F || code == 0x3000;
}

std::optional<size_t> first_invalid(std::string_view text) {
  for (size_t place = 0; place < text.size();) {
    const Decoded character = first_of(text.substr(place));
    if (character.code == kInvalidCode) return place;
    place += character.length;
  }
  return std::nullopt;
}

std::string_view strip(std::string_view text, std::optional<std::string_view> characters, Sides sides) {
  std::u32string set;
  if (characters) for_each_character(*characters, [&](size_t, Decoded character) { set += character.code; });
  const auto cuts = [&](char32_t code) { return characters ? set.find(code) != set.npos : is_space(code); };
  while (sides != Sides::right && !text.empty()) {
    const Decoded first = first_of(text);
    if (!cuts(first.code)) break;
    text.remove_prefix(first.length);
  }
  while (sides != Sides::left && !text.empty()) {
    const Decoded last = last_of(text);
    if (!cuts(last.code)) break;
    text.remove_suffix(last.length);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit) {
  if (!separator) return split_at_spaces(text, limit);
  std::vector<std::string_view> parts;
  size_t from = 0;
  for (; limit != 0; --limit) {
    const size_t at = find_in(text, *separator, from);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(from, at - from));
    from = at + separator->size();
  }
  parts.push_back(text.substr(from));
  return parts;
}

std::vector<std::string_view> split_from_right(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string_view> parts;
  for (; limit != 0; --limit) {
    const size_t at = text.rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.substr(at + separator.size()));
    text = text.substr(0, at);
  }
  parts.push_back(text);
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  size_t from = 0;
  bool after_return = false;
  for_each_character(text, [&](size_t place, Decoded character) {
    if (after_return && character.code == '\n') {
      from = place + 1;
    } else if (ends_line(character.code)) {
      lines.push_back(text.substr(from, place - from));
      from = place + character.length;
    }
    after_return = character.code == '\r';
  });
  if (from < text.size()) lines.push_back(text.substr(from));
  return lines;
}

size_t find_in(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  // memmem() takes linear time, string_view::find() the product of both sizes for hostile texts.
  const void* const at = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return at == nullptr ? std::string_view::npos : static_cast<size_t>(static_cast<const char*>(at) - text.data());
}

size_t count_in(std::string_view text, std::string_view part) {
  if (part.empty()) return count_code_points(text) + 1;
  size_t count = 0;
  for (size_t at = find_in(text, part); at != std::string_view::npos; at = find_in(text, part, at + part.size()))
    ++count;
  return count;
}

std::string replace(std::string_view text, std::string_view old, std::string_view by, int64_t limit) {
  std::string out;
  if (old.empty()) {
    for_each_character(text, [&](size_t place, Decoded character) {
      if (limit != 0) {
        out += by;
        --limit;
      }
      out += text.substr(place, character.length);
    });
    if (limit != 0) out += by;
    return out;
  }
  size_t from = 0;
  for (; limit != 0; --limit) {
    const size_t at = find_in(text, old, from);
    if (at == std::string_view::npos) break;
    out += text.substr(from, at - from);
    out += by;
    from = at + old.size();
  }
  out += text.substr(from);
  return out;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  for_each_character(
      text, [&](size_t place, Decoded character) { characters.push_back(text.substr(place, character.length)); });
  return characters;
}

std::string upper(std::string_view text) {
  std::string out;
  for_each_character(text, [&](size_t, Decoded character) {
    if (const SpecialCase* special = special_case(character.code)) {
      out += special->upper;
    } else {
      append_utf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character.code))), out);
    }
  });
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for_each_character(text, [&](size_t place, Decoded character) { append_lower(text, place, character, out); });
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for_each_character(text, [&](size_t place, Decoded character) {
    if (place == 0) {
      append_title(character.code, out);
    } else {
      append_lower(text, place, character, out);
    }
  });
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool in_word = false;
  for_each_character(text, [&](size_t place, Decoded character) {
    if (in_word) {
      append_lower(text, place, character, out);
    } else {
      append_title(character.code, out);
    }
    in_word = is_cased(character.code);
  });
  return out;
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string quoted_text(std::string_view text) {
  const bool doubled = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for_each_character(text, [&](size_t place, Decoded character) {
    const auto code = static_cast<uint32_t>(character.code);
    if (code == '\\' || code == static_cast<uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n') {
      out += "\\n";
    } else if (code == '\r') {
      out += "\\r";
    } else if (code == '\t') {
      out += "\\t";
    } else if (is_printable(character.code)) {
      out += text.substr(place, character.length);
    } else if (code < 0x100) {
      out += fmt::format("\\x{:02x}", code);
    } else {
      out += code < 0x10000 ? fmt::format("\\u{:04x}", code) : fmt::format("\\U{:08x}", code);
    }
  });
  out += quote;
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view written(buffer, static_cast<size_t>(end - buffer));  // -d.ddde-05
  const size_t mark = written.find('e');
  int exponent = 0;
  const std::string_view power = written.substr(mark + (written[mark + 1] == '+' ? 2 : 1));
  std::from_chars(power.data(), power.data() + power.size(), exponent);
  constexpr int kLowest = -4, kHighest = 16;  // as Python, outside of which it writes an exponent
  if (exponent < kLowest || exponent >= kHighest) return std::string(written);
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string text(buffer, fixed);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

}  // namespace trireme::chat
