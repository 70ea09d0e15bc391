#pragma once
// The part of regular expression syntax that can become tables, as a tree: characters and classes, alternatives,
// groups, repetitions, and lookahead of one character.

#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "text/regex/code_set.h"

namespace trireme {

/// An expression has a part that tables cannot express; what() completes "it has ...".
struct NotForTables : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct PatternTree {
  enum class Kind : uint8_t {
    set,       ///< one character of `set`
    sequence,  ///< `parts` one after another
    choice,    ///< the first of `parts` with which the rest matches
    repeat,    ///< parts[0] `least` to `most` times, as often as possible, or, `lazy`, as rarely as possible
    next_in,   ///< matches the empty text if the next character is in `set`
    next_out,  ///< the same if it is not in `set` or the text ends
    at_end,    ///< the same at the end of the text
  };
  static constexpr unsigned kNoLimit = UINT32_MAX;

  Kind kind = Kind::sequence;
  CodeSet set;
  std::vector<PatternTree> parts;
  unsigned least = 0, most = 0;
  bool lazy = false;
};

/// Reads an expression as Regex's PCRE2 does. Throws NotForTables for unsupported or invalid syntax.
PatternTree parse_pattern(std::string_view pattern);

/// True if it can match the empty text.
bool matches_nothing(const PatternTree& tree);

}  // namespace trireme
