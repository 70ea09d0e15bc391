#pragma once
// Regular expressions of tokenizer.json, run by PCRE2 with Unicode classes. They are written for Oniguruma (with Ruby's
// syntax); constructs with another meaning in PCRE2 are rewritten: \s is White_Space, \w has marks, ^ and $ are borders
// of lines, \p{Han} is the script alone.

#include <memory>
#include <string>
#include <string_view>

#include "text/unicode.h"

namespace trireme {

class Regex {
 public:
  /// Throws Error::data naming `where` and the position for a pattern that is invalid or too large.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    size_t begin, end;
  };
  /// Iterates over one text, valid UTF-8 that outlives it.
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    ~Search();
    /// First match at or after `from`; false if none. Throws Error::data if the engine fails, or if the patterns of
    /// this thread take more than two seconds plus two more per megabyte of text.
    bool next(size_t from, Match& match);

   private:
    bool timed() const;
    void look_at_clock();

    const Regex& regex_;
    std::string_view text_;
    size_t places_;
    uint64_t finds_ = 0;
    double last_look_ = 0;
  };

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string where_;
};

/// Calls match(begin, end) for each match in valid UTF-8, including empty ones, except at the end of the previous
/// match.
template <class Call>
void for_each_match(const Regex& regex, std::string_view text, Call match) {
  if (text.empty()) return;
  Regex::Search search(regex, text);
  Regex::Match found{};
  size_t last_end = std::string_view::npos;
  for (size_t at = 0; at <= text.size() && search.next(at, found);) {
    at = found.end;
    if (found.begin == found.end && found.end == last_end) {
      at += at < text.size() ? decode_utf8(text.data() + at, text.data() + text.size()).length : 1;
      continue;
    }
    last_end = found.end;
    match(found.begin, found.end);
  }
}

}  // namespace trireme
