#pragma once
// NHC's match strings, used for targets, mount sources, output lines and command names.

#include <string>
#include <string_view>

namespace trireme::health {

/// A glob ("n*.viz"), "/extended regular expression/" (found anywhere), or "{n00[00-99].phys,n05}" (node ranges); a
/// leading "!" negates it.
class Match {
 public:
  /// Throws Error::config naming the string for an expression that does not compile, an unclosed brace or bracket, a
  /// range without numbers, and NHC's external matches "(...)". As in NHC a range may be descending ("[3-1]"), and its
  /// numbers may have the width of either end ("[1-10]" has n1, n01 and n10).
  explicit Match(std::string text);
  bool operator()(std::string_view candidate) const;
  bool negated() const { return negated_; }
  /// The same without the "!".
  bool positive(std::string_view candidate) const;
  const std::string& text() const { return text_; }

 private:
  enum class Kind { glob, regex, ranges };
  std::string text_, pattern_;
  bool negated_ = false;
  Kind kind_ = Kind::glob;
};

}  // namespace trireme::health
