#include "text/pipeline/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "text/unicode.h"

namespace trireme {
namespace {

// Normalizes text in steps that end before an ASCII character, which does not depend on the text before it.
constexpr size_t kStep = size_t{64} << 10;

void append_valid(std::string_view valid, bool compose, bool compatible, std::string& out) {
  std::vector<utf8proc_int32_t> codes(valid.size() + 1);
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  const auto decompose = [&] {
    return utf8proc_decompose(reinterpret_cast<const utf8proc_uint8_t*>(valid.data()),
                              static_cast<utf8proc_ssize_t>(valid.size()), codes.data(),
                              static_cast<utf8proc_ssize_t>(codes.size()), options);
  };
  utf8proc_ssize_t count = decompose();
  if (count > static_cast<utf8proc_ssize_t>(codes.size())) {
    codes.resize(static_cast<size_t>(count));
    count = decompose();
  }
  require(count >= 0, ErrorKind::data, "cannot normalize text: {}", utf8proc_errmsg(count));
  if (compose) {
    const auto composing = static_cast<utf8proc_option_t>(options | UTF8PROC_COMPOSE);
    count = utf8proc_normalize_utf32(codes.data(), count, composing);
  }
  for (utf8proc_ssize_t i = 0; i < count; ++i) append_utf8(static_cast<char32_t>(codes[static_cast<size_t>(i)]), out);
}

void append_normal_form(std::string_view text, bool compose, bool compatible, std::string& out) {
  for_each_valid_run(text, [&](std::string_view run, bool valid) {
    if (!valid) {
      out += run;
      return;
    }
    while (!run.empty()) {
      size_t end = std::min(run.size(), kStep);
      while (end < run.size() && static_cast<uint8_t>(run[end]) >= 0x80) ++end;
      append_valid(run.substr(0, end), compose, compatible, out);
      run.remove_prefix(end);
    }
  });
}

/// Bytes of the first character as a reader counts them, with its marks.
size_t first_grapheme(std::string_view text) {
  const char* const end = text.data() + text.size();
  Decoded before = decode_utf8(text.data(), end);
  utf8proc_int32_t state = 0;
  size_t at = before.length;
  while (at < text.size()) {
    const Decoded next = decode_utf8(text.data() + at, end);
    const bool ends = before.code == kInvalidCode || next.code == kInvalidCode ||
                      utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before.code),
                                                       static_cast<utf8proc_int32_t>(next.code), &state);
    if (ends) break;
    at += next.length;
    before = next;
  }
  return at;
}

/// What does not depend on the text around it, with the origins of its bytes.
void rewrite_stretch(std::string_view stretch, bool compose, bool compatible, Rewriting& to) {
  std::string all, joined;
  append_normal_form(stretch, compose, compatible, all);
  if (all == stretch) return to.keep(stretch.size());
  std::vector<TextSpan> parts;  // bytes of the stretch, and of what they become
  for (size_t at = 0; at < stretch.size();) {
    const size_t bytes = first_grapheme(stretch.substr(at)), before = joined.size();
    append_normal_form(stretch.substr(at, bytes), compose, compatible, joined);
    parts.push_back({bytes, joined.size() - before});
    at += bytes;
  }
  if (joined != all) {  // its characters join: compatibility forms of Hangul
    to.out += all;
    return to.took(stretch.size());
  }
  size_t from = 0, made = 0;
  for (const auto& [bytes, became] : parts) {
    if (stretch.substr(from, bytes) == std::string_view(all).substr(made, became)) {
      to.keep(bytes);
    } else {
      to.out.append(all, made, became);
      to.took(bytes);
    }
    from += bytes;
    made += became;
  }
}

}  // namespace

std::string normal_form(std::string_view text, bool compose, bool compatible, Origins* origins) {
  Rewriting rewriting(text, origins);
  if (origins == nullptr) {
    append_normal_form(text, compose, compatible, rewriting.out);
    return std::move(rewriting.out);
  }
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;  // before the next ASCII character
    while (end < text.size() && static_cast<uint8_t>(text[end]) >= 0x80) ++end;
    rewrite_stretch(text.substr(at, end - at), compose, compatible, rewriting);
    at = end;
  }
  return std::move(rewriting.out);
}

void append_lower_case(char32_t code, std::string& out) {
  if (code == 0x130) {
    out += "i\u0307";
    return;
  }
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
}

}  // namespace trireme
