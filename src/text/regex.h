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
  /// Throws Error::data naming `where` and the position for a pattern that is not valid.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  struct Match {
    size_t begin, end;
  };
  /// First match at or after `from` in valid UTF-8; false if there is none. Throws Error::data when the engine gives up
  /// (its limits bound the time of malicious patterns).
  bool find(std::string_view text, size_t from, Match& match) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace trireme
