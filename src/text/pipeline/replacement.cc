#include "text/pipeline/replacement.h"

#include "base/error.h"
#include "text/regex/intervals.h"
#include "text/unicode.h"

namespace trireme {
namespace {

/// A run of valid UTF-8, its matches replaced.
void replace_in_run(const Regex& regex, std::string_view run, const std::string& content, const TextLimit& limit,
                    Rewriting& text) {
  size_t at = 0;
  for_each_match(regex, run, [&](size_t begin, size_t end) {
    text.keep(begin - at);
    text.out += content;
    text.took(end - begin);
    limit.check(text.out.size());
    at = end;
  });
  text.keep(run.size() - at);
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

void Replacement::apply(std::string& text, const TextLimit& limit, Origins* origins) const {
  Rewriting rewriting(text, origins);
  if (pattern_.regex) {
    for_each_valid_run(text, [&](std::string_view run, bool valid) {
      if (valid)
        replace_in_run(*pattern_.regex, run, content_, limit, rewriting);
      else
        rewriting.keep(run.size());
    });
  } else {
    size_t at = 0;
    for (size_t found; (found = text.find(pattern_.literal, at)) != std::string::npos;
         at = found + pattern_.literal.size()) {
      rewriting.keep(found - at);
      rewriting.out += content_;
      rewriting.took(pattern_.literal.size());
      limit.check(rewriting.out.size());
    }
    rewriting.keep(text.size() - at);
  }
  text = std::move(rewriting.out);
}

}  // namespace trireme
