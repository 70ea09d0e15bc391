#include "text/pipeline/replacement.h"

#include "base/error.h"
#include "text/regex/intervals.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// Appends a run of valid UTF-8 with its matches replaced.
void replace_in_run(const Regex& regex, std::string_view run, const std::string& content, const TextLimit& limit,
                    std::string& out) {
  size_t at = 0;
  for_each_match(regex, run, [&](size_t begin, size_t end) {
    out.append(run, at, begin - at).append(content);
    limit.check(out.size());
    at = end;
  });
  out.append(run, at, std::string_view::npos);
}

}  // namespace

TextPattern read_pattern(const JsonObject& element) {
  const JsonObject body = element.object("pattern");
  body.allow_only({"String", "Regex"});
  TextPattern pattern;
  if (body.has("Regex"))
    pattern.regex.emplace(without_repeated_intervals(body.string("Regex"), body.place()), body.place());
  else
    pattern.literal = body.string("String");
  require(pattern.regex || !pattern.literal.empty(), ErrorKind::data, "{}: the pattern is empty", body.place());
  return pattern;
}

Replacement::Replacement(const JsonObject& element)
    : pattern_(read_pattern(element)), content_(element.string("content")) {
  element.allow_only({"type", "pattern", "content"});
}

void Replacement::apply(std::string& text, const TextLimit& limit) const {
  std::string out;
  out.reserve(text.size());
  if (pattern_.regex) {
    for_each_valid_run(text, [&](std::string_view run, bool valid) {
      if (valid)
        replace_in_run(*pattern_.regex, run, content_, limit, out);
      else
        out += run;
    });
  } else {
    size_t at = 0;
    for (size_t found; (found = text.find(pattern_.literal, at)) != std::string::npos;
         at = found + pattern_.literal.size()) {
      out.append(text, at, found - at).append(content_);
      limit.check(out.size());
    }
    out.append(text, at);
  }
  text = std::move(out);
}

}  // namespace trireme
