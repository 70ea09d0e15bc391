#pragma once
// Text that comes from outside (files, flags, other programs) as it may be shown and stored.

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

/// Longest text of an error; of a longer one the middle is left out, since file and remedy stand at its ends.
inline constexpr size_t kMostErrorBytes = 8192;

/// Valid UTF-8 of about `most_bytes` at most, safe on a terminal and in JSON. Control sequences of terminals are
/// removed; bytes that are no UTF-8, NUL and other control characters but line breaks and tabs are written as \xNN,
/// characters that turn the direction of writing as \u{NNNN}. Applied twice it changes nothing more.
std::string printable(std::string_view text, size_t most_bytes = kMostErrorBytes);

}  // namespace trireme
