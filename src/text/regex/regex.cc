#include "text/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "text/regex/code_set.h"

namespace trireme {
namespace {

/// Oniguruma's word characters inside [...], including circled letters. Alone, \w has a few more numbers.
constexpr std::string_view kWord =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kWordAlone = R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";
constexpr std::string_view kNoHexDigits = R"(\x{0}-\/:-@G-`g-\x{10ffff})";

/// Whether PCRE2 supports \p{...} with this text.
bool is_property(const std::string& name) {
  const std::string pattern = "\\p{" + name + "}";
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* const code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                         PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

/// The characters of `set`, as written inside [...].
std::string written(const CodeSet& set) {
  std::string text;
  for (const CodeSet::Range& range : set.ranges())
    text +=
        fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(range.first), static_cast<uint32_t>(range.last));
  return text;
}

/// All characters outside `set`.
std::string written_complement(CodeSet set) {
  set.add({kInvalidCode, kInvalidCode});
  return written(set.complement());
}

/// Translates an Oniguruma pattern for PCRE2: rewrites constructs that mean something else in PCRE2. Refuses nested
/// sets, which PCRE2 would read as plain characters.
class PatternWriter {
 public:
  PatternWriter(std::string_view pattern, std::string_view where) : pattern_(pattern), where_(where) {}

  std::string write() {
    while (at_ < pattern_.size()) {
      if (take("\\"))
        escape();
      else if (in_class_)
        class_character();
      else
        character();
    }
    return std::move(out_);
  }

 private:
  bool next_is(std::string_view word) const { return pattern_.substr(at_).starts_with(word); }
  bool take(std::string_view word) {
    if (!next_is(word)) return false;
    at_ += word.size();
    return true;
  }

  void character() {
    const char c = pattern_[at_++];
    out_.push_back(c);
    if (c == '[') {
      in_class_ = true;
      if (take("^")) out_.push_back('^');
      if (take("]")) out_.push_back(']');
    } else if (c == '(' && next_is("?")) {
      flags();
    } else if (c == '{' && next_is(",")) {
      const size_t end = pattern_.find_first_not_of("0123456789", at_ + 1);
      if (end > at_ + 1 && end < pattern_.size() && pattern_[end] == '}') out_.push_back('0');
    }
  }

  /// Oniguruma's (?m) lets . match line breaks.
  void flags() {
    const size_t end = pattern_.find_first_not_of("imx-", at_ + 1);
    if (end >= pattern_.size() || (pattern_[end] != ':' && pattern_[end] != ')')) return;
    for (; at_ < end; ++at_) out_.push_back(pattern_[at_] == 'm' ? 's' : pattern_[at_]);
  }

  void class_character() {
    const char c = pattern_[at_++];
    require(c != '[' && (c != '&' || !next_is("&")), ErrorKind::data,
            "{}: the pattern {} has nested sets, which are unsupported", where_, pattern_);
    out_.push_back(c);
    in_class_ = c != ']';
  }

  /// A set; outside brackets with its own brackets.
  void set(std::string_view inside, bool negated = false) {
    out_.append(in_class_ ? "" : negated ? "[^" : "[").append(inside).append(in_class_ ? "" : "]");
  }

  /// After the backslash.
  void escape() {
    if (at_ == pattern_.size()) return out_.push_back('\\');
    const char c = pattern_[at_++];
    const std::string alone = std::string(kWord) + std::string(kWordAlone);
    if (c == 's') return set(written(white_space()));
    if (c == 'S') return in_class_ ? set(written_complement(white_space())) : set(written(white_space()), true);
    if (c == 'w') return set(in_class_ ? kWord : alone);
    if (c == 'W') return in_class_ ? set(written_complement(word_characters(false))) : set(alone, true);
    if (c == 'h') return set(kHexDigits);
    if (c == 'H') return set(kNoHexDigits);
    if (c == 'v') return void(out_ += "\\x{b}");
    if (c == 'u' && at_ + 4 <= pattern_.size()) return code_point();
    if ((c == 'p' || c == 'P') && take("{")) return property(c == 'P');
    if ((c == 'b' || c == 'B') && !in_class_) return border(c == 'b', alone);
    out_.append({'\\', c});
  }

  /// \u4e2d
  void code_point() {
    const std::string_view digits = pattern_.substr(at_, 4);
    if (digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return void(out_ += "\\u");
    out_.append("\\x{").append(digits).append("}");
    at_ += 4;
  }

  /// PCRE2's \p{Han} also contains characters used with Han, such as 、; here a script contains only its own
  /// characters.
  void property(bool negated) {
    negated = take("^") != negated;
    const size_t end = std::min(pattern_.find('}', at_), pattern_.size());
    const std::string name(pattern_.substr(at_, end - at_));
    at_ = end;
    const bool script = name.size() > 2 && is_property("sc:" + name);
    out_ += fmt::format("\\{}{{{}{}", negated ? 'P' : 'p', script ? "sc:" : "", name);
  }

  void border(bool between, const std::string& word) {
    out_ +=
        fmt::format("(?:(?<=[{0}])(?{1}[{0}])|(?<![{0}])(?{2}[{0}]))", word, between ? '!' : '=', between ? '=' : '!');
  }

  std::string_view pattern_, where_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false;
};

std::string message_of(int error) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(error, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

/// Memory of one match; one per thread and pattern would be faster, but this is the slow path.
struct MatchData {
  explicit MatchData(const pcre2_code* code) : data(pcre2_match_data_create_from_pattern(code, nullptr)) {}
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(data); }
  pcre2_match_data* data;
};

// Common patterns have some hundred bytes, some kilobytes when compiled, and match a few characters.
constexpr size_t kMostPatternBytes = size_t{1} << 14, kMostCodeBytes = size_t{1} << 18;
constexpr uint32_t kMostLeastMatch = 4096;
constexpr uint32_t kMostHeapKib = 1 << 17;  // for backtracking if the JIT's stack is too small

// Processor time allowed for a thread's patterns, by the bytes of its text. Patterns are usually more than ten times
// faster; short texts do not check the clock. Only this much unused time carries over to later text.
constexpr double kFreeSeconds = 2, kSecondsPerByte = 2e-6;
constexpr size_t kTimedBytes = 1024;
constexpr uint64_t kFindsPerLook = 64;

struct TimeAccount {
  double used = 0, granted = kFreeSeconds;
};
thread_local TimeAccount account;

double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Limits of one call. Tries the possible starts of a match some at a time, because each can take time proportional to
/// the text.
struct MatchLimits {
  MatchLimits() : context(pcre2_match_context_create(nullptr)) { pcre2_set_heap_limit(context, kMostHeapKib); }
  MatchLimits(const MatchLimits&) = delete;
  MatchLimits& operator=(const MatchLimits&) = delete;
  ~MatchLimits() { pcre2_match_context_free(context); }
  pcre2_match_context* context;
};

size_t places_per_call(size_t bytes) {
  return std::clamp<size_t>((size_t{1} << 24) / std::max<size_t>(bytes, 1), 16, 4096);
}

/// Throws unless the compiled pattern and its shortest match are small enough.
void check_code(const pcre2_code* code, std::string_view pattern, std::string_view where) {
  size_t bytes = 0;
  uint32_t least = 0;
  pcre2_pattern_info(code, PCRE2_INFO_SIZE, &bytes);
  pcre2_pattern_info(code, PCRE2_INFO_MINLENGTH, &least);
  require(bytes <= kMostCodeBytes, ErrorKind::data,
          "{}: the pattern {} has {} bytes when compiled, but at most {} are supported; its repetitions multiply",
          where, pattern, bytes, kMostCodeBytes);
  require(least <= kMostLeastMatch, ErrorKind::data,
          "{}: the pattern {} only matches texts of at least {} characters, but at most {} are supported", where,
          pattern, least, kMostLeastMatch);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::string_view pattern, std::string_view where) : code_(std::make_unique<Code>()), where_(where) {
  require(pattern.size() <= kMostPatternBytes, ErrorKind::data,
          "{}: a pattern of {} bytes, but at most {} are supported", where, pattern.size(), kMostPatternBytes);
  const std::string text = PatternWriter(pattern, where).write();
  int error = 0;
  PCRE2_SIZE at = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_USE_OFFSET_LIMIT, &error, &at, nullptr);
  require(code_->code != nullptr, ErrorKind::data, "{}: the pattern {} is not valid at character {}: {}", where,
          pattern, at, message_of(error));
  check_code(code_->code, pattern, where);
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // optional: only makes matching faster
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

Regex::Search::Search(const Regex& regex, std::string_view text)
    : regex_(regex), text_(text), places_(places_per_call(text.size())) {
  if (text.size() < kTimedBytes) return;
  account.granted = std::min(account.granted, account.used + kFreeSeconds);
  account.granted += static_cast<double>(text.size()) * kSecondsPerByte;
  last_look_ = thread_seconds();
}

Regex::Search::~Search() {
  if (timed()) account.used += thread_seconds() - last_look_;
}

bool Regex::Search::timed() const { return text_.size() >= kTimedBytes; }

void Regex::Search::look_at_clock() {
  if (!timed()) return;
  const double now = thread_seconds();
  account.used += now - std::exchange(last_look_, now);
  if (account.used <= account.granted) return;
  const double used = std::exchange(account, {}).used;
  fail(ErrorKind::data,
       "{}: a pattern of the tokenizer is too slow: {:.1f} s of processor time, below the minimum of {:.1f} MB/s; "
       "simplify it",
       regex_.where_, used, 1e-6 / kSecondsPerByte);
}

bool Regex::Search::next(size_t from, Match& match) {
  const pcre2_code* const code = regex_.code_->code;
  thread_local const pcre2_code* made_for = nullptr;
  thread_local std::unique_ptr<MatchData> data;
  thread_local const MatchLimits limits;
  if (made_for != code) {
    data = std::make_unique<MatchData>(code);
    made_for = code;
  }
  if (++finds_ % kFindsPerLook == 0) look_at_clock();
  while (true) {
    const size_t last = std::min(text_.size(), from + places_);
    pcre2_set_offset_limit(limits.context, last);
    const auto run = [&](uint32_t options) {
      return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text_.data()), text_.size(), from,
                         PCRE2_NO_UTF_CHECK | options, data->data, limits.context);
    };
    int count = run(0);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) count = run(PCRE2_NO_JIT);
    // 0: the data were made for a pattern with fewer groups that was at this address; the match itself is there.
    if (count >= 0) break;
    require(count == PCRE2_ERROR_NOMATCH, ErrorKind::data,
            "{}: a pattern of the tokenizer failed at byte {} of a text: {}", regex_.where_, from, message_of(count));
    if (last == text_.size()) return false;
    from = last + 1;
    while (from < text_.size() && (static_cast<uint8_t>(text_[from]) & 0xC0) == 0x80) ++from;
    look_at_clock();
  }
  const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data->data);
  match = {range[0], range[1]};
  return true;
}

}  // namespace trireme
