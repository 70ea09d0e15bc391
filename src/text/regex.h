#pragma once
// Regular expressions of tokenizer files, run by PCRE2 with Unicode classes. Where PCRE2's classes differ from those of
// the engines that these files are written for (Oniguruma, Rust's regex), the pattern is rewritten: \s is White_Space,
// \w has marks.

#include <memory>
#include <string>
#include <string_view>

namespace trireme {

class Regex {
 public:
  /// Throws Error::data naming `where` and the position for a pattern that is not valid, or one that is too large.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    size_t begin, end;
  };
  /// Goes through one text, valid UTF-8 that outlives it.
  class Search {
   public:
    Search(const Regex& regex, std::string_view text);
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    ~Search();
    /// First match at or after `from`; false if there is none. Throws Error::data when the engine gives up, or when the
    /// patterns of this thread take more than two seconds and two more for each megabyte of text.
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

}  // namespace trireme
