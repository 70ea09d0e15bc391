#pragma once
// Makes text from outside (files, flags, other programs) safe to show and store.

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

/// Longest text of an error; the middle of a longer one is omitted, since file and remedy are at its ends.
inline constexpr size_t kMostErrorBytes = 8192;

/// Valid UTF-8 of about `most_bytes` at most, safe on a terminal and in JSON. Control sequences of terminals are
/// removed; bytes that are not UTF-8, NUL and other control characters except line breaks and tabs are written as \xNN,
/// characters that change the direction of text as \u{NNNN}. Idempotent.
std::string printable(std::string_view text, size_t most_bytes = kMostErrorBytes);

}  // namespace trireme
