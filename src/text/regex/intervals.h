#pragma once
// {n,m}+ in a pattern: in PCRE2 and tiktoken a possessive repetition, in tokenizer.json, whose patterns are
// Oniguruma's, one or more of X{n,m}. (?+, *+ and ++ are possessive in both.)

#include <string>
#include <string_view>

namespace trireme {

/// A pattern of tokenizer.json with these repetitions written as every engine reads them: X{1,m}+ becomes X+. Throws
/// Error::data, which begins with `place`, for another {n,m}+.
std::string without_repeated_intervals(std::string_view pattern, std::string_view place);

/// A pattern of tiktoken for tokenizer.json: {n,m}+ at the end of an alternative becomes {n,m}, which is the same
/// there. Throws Error::usage for one in another place.
std::string without_possessive_intervals(std::string_view pattern);

}  // namespace trireme
