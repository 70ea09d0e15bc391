#include "text/pipeline/normal_form.h"

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

}  // namespace

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

void append_lower_case(char32_t code, std::string& out) {
  if (code == 0x130) {
    out += "i\u0307";
    return;
  }
  append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), out);
}

}  // namespace trireme
