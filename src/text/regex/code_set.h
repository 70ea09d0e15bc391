#pragma once
// Sets of code points, for the classes of a regular expression. kInvalidCode counts as a code point without properties,
// so negated sets contain it.

#include <optional>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace trireme {

class CodeSet {
 public:
  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };

  CodeSet() = default;
  CodeSet(char32_t first, char32_t last) : ranges_{{first, last}} {}
  /// Ranges in any order.
  explicit CodeSet(std::vector<Range> ranges);
  /// A general category, such as "L" or "Lu"; empty for other names.
  static std::optional<CodeSet> category(std::string_view name);

  void add(const CodeSet& other);
  CodeSet complement() const;
  bool contains(char32_t code) const;
  bool intersects(const CodeSet& other) const;
  const std::vector<Range>& ranges() const { return ranges_; }  ///< ascending, neither touching nor overlapping
  bool operator==(const CodeSet&) const = default;

 private:
  void sort();

  std::vector<Range> ranges_;
};

/// \s
CodeSet white_space();
/// Oniguruma's \w; `alone`: with a few numbers that it lacks inside [...].
CodeSet word_characters(bool alone);

}  // namespace trireme
