#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kSpaces =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// Unicode's definition of a word character, but for 130 circled letters.
constexpr std::string_view kWord = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d})";

/// Writes \s \S \w \W out, outside and inside of [...]. Sets of sets, which PCRE2 would read as plain characters, are
/// refused.
std::string rewrite(std::string_view pattern, std::string_view where) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      const std::string_view set = next == 's' || next == 'S' ? kSpaces : next == 'w' || next == 'W' ? kWord : "";
      const bool negated = next == 'S' || next == 'W';
      if (set.empty() || (negated && in_class))
        out.append({c, next});
      else
        out.append(in_class ? "" : negated ? "[^" : "[").append(set).append(in_class ? "" : "]");
      continue;
    }
    out.push_back(c);
    if (!in_class && c == '[') {
      in_class = true;
      if (i + 1 < pattern.size() && pattern[i + 1] == '^') out.push_back(pattern[++i]);
      if (i + 1 < pattern.size() && pattern[i + 1] == ']') out.push_back(pattern[++i]);
    } else if (in_class) {
      const bool nested = c == '[' || (c == '&' && i + 1 < pattern.size() && pattern[i + 1] == '&');
      require(!nested, ErrorKind::data, "{}: the pattern {} has sets inside of sets, which is not implemented", where,
              pattern);
      in_class = c != ']';
    }
  }
  return out;
}

std::string message_of(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

/// Memory of one match; one per thread and pattern would be faster, this is the slow path already.
struct MatchData {
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {}
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(data); }
  pcre2_match_data* data;
};

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, std::string_view where) : code_(std::make_unique<Code>()) {
  const std::string text = rewrite(pattern, where);
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP, &error,
                              &at, nullptr);
  require(code_->code != nullptr, ErrorKind::data, "{}: the pattern {} is not valid at character {}: {}", where,
          pattern, at, message_of(error));
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without it the same matches are found, only slower
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

bool Regex::find(std::string_view text, size_t from, Match& match) const {
  thread_local const pcre2_code* made_for = nullptr;
  thread_local std::unique_ptr<MatchData> data;
  if (made_for != code_->code) {
    data = std::make_unique<MatchData>(code_->code);
    made_for = code_->code;
  }
  const auto run = [&](uint32_t options) {
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, data->data, nullptr);
  };
  int count = run(0);
  if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = run(PCRE2_NO_JIT);
  if (count == PCRE2_ERROR_NOMATCH) return false;
  require(count > 0, ErrorKind::data, "a pattern of the tokenizer gave up at byte {} of a text: {}", from,
          message_of(count));
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data->data);
  match = {range[0], range[1]};
  return true;
}

}  // namespace trireme
