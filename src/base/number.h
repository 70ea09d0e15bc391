#pragma once
#include <optional>
#include <string_view>

namespace trireme {

/// The finite decimal number that is the whole text, as "-1.5e3"; nothing else: no blanks, "inf", "0x10" or "1e999".
/// Whoever judges a text as a number and whoever reads it call this.
std::optional<double> parse_number(std::string_view text);

}  // namespace trireme
