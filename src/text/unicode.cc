#include "text/unicode.h"

#include <utf8proc.h>

#include <memory>

namespace trireme {
namespace {

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// The joiners and the circled letters, which are symbols by category but alphabetic.
bool is_extra_word_char(char32_t c) {
  return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

uint8_t category_bits(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter | kWord;
    case UTF8PROC_CATEGORY_MN:
      return kMark | kNonspacing | kWord;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kMark | kWord;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return kNumber | kWord;
    case UTF8PROC_CATEGORY_NO:
      return kNumber;
    case UTF8PROC_CATEGORY_PC:
      return kPunctuation | kWord;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return kOther;
    default:  // symbols, unassigned code points, and separators, whose only class is kSpace
      return 0;
  }
}

}  // namespace

void append_utf8(char32_t code, std::string& out) {
  const auto push = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | code >> 6);
    push(0x80 | (code & 63));
  } else if (code < 0x10000) {
    push(0xE0 | code >> 12);
    push(0x80 | (code >> 6 & 63));
    push(0x80 | (code & 63));
  } else {
    push(0xF0 | code >> 18);
    push(0x80 | (code >> 12 & 63));
    push(0x80 | (code >> 6 & 63));
    push(0x80 | (code & 63));
  }
}

size_t count_code_points(std::string_view text) {
  size_t count = 0;
  const char* const end = text.data() + text.size();
  for (const char* p = text.data(); p < end; ++count) p += decode_utf8(p, end).length;
  return count;
}

bool is_upper_case(char32_t code) {
  const auto c = static_cast<utf8proc_int32_t>(code);
  return code < kInvalidCode && utf8proc_tolower(c) != c;
}

CharTable::CharTable() : bits_() {
  for (char32_t c = 0; c < kInvalidCode; ++c) {
    bits_[c] = category_bits(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    if (is_white_space(c)) bits_[c] |= kSpace;
    if (is_extra_word_char(c)) bits_[c] |= kWord;
  }
}

const CharTable& char_table() {
  static const auto table = std::make_unique<const CharTable>();
  return *table;
}

size_t whole_characters(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<uint8_t>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;  // not the first of its character
    const size_t length = byte >= 0xF8 ? 1 : byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? text.size() - back : text.size();
  }
  return text.size();
}

}  // namespace trireme
