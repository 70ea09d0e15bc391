#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

/// Converts ASCII letters A to Z to lower case.
std::string lower_case(std::string_view text);

/// Without blanks and tabs at both ends, and carriage returns at the end.
std::string_view trim_blanks(std::string_view text);

/// Number of insertions, deletions, replacements and swaps of neighbours that turn a into b (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate with the smallest edit distance to `word` ('-' equals '_'); empty without candidates.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "1.50 GB", "12.3 MB", "800.0 kB", "12 B": powers of ten.
std::string human_bytes(uint64_t bytes);
/// "1 h 05 min", "3 min 20 s", "12 s".
std::string human_seconds(double seconds);

/// The words of text in lines of at most `width`; every line after the first begins with `indent` blanks.
std::string wrapped(std::string_view text, size_t width, size_t indent);

/// The finite decimal number that is the whole text, as "-1.5e3"; nothing else: no blanks, "inf", "0x10" or "1e999".
/// Whoever judges a text as a number and whoever reads it call this.
std::optional<double> parse_number(std::string_view text);

}  // namespace trireme
