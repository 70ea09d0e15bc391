#pragma once
// The part of regular expression syntax that can become tables, as a tree: characters and classes, alternatives,
// groups, repetitions, and a look at the one character that follows.

#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "text/code_set.h"

namespace trireme {

/// What an expression has that tables cannot do; what() completes "it has ...".
struct NotForTables : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct PatternTree {
  enum class Kind : uint8_t {
    set,       ///< one character of `set`
    sequence,  ///< `parts` one after another
    choice,    ///< the first of `parts` with which all the rest matches
    repeat,    ///< parts[0] `least` to `most` times, as often as possible, or, `lazy`, as rarely as possible
    next_in,   ///< matches nothing, where the next character is in `set`
    next_out,  ///< where it is not in `set`, or the text ends
    at_end,    ///< where the text ends
  };
  static constexpr unsigned kNoLimit = UINT32_MAX;

  Kind kind = Kind::sequence;
  CodeSet set;
  std::vector<PatternTree> parts;
  unsigned least = 0, most = 0;
  bool lazy = false;
};

/// Reads an expression as PCRE2 does behind Regex. Throws NotForTables for what is not in this part of the syntax, and
/// for what is not valid.
PatternTree parse_pattern(std::string_view pattern);

/// True if it can match without taking a character.
bool matches_nothing(const PatternTree& tree);

}  // namespace trireme
