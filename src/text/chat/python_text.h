#pragma once
// Python's functions on texts, over UTF-8. Texts are valid UTF-8 throughout; places and lengths count characters.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::chat {

/// Python's str.isspace() of one character.
bool is_space(char32_t code);
/// Of bytes that are not valid UTF-8 the first one's offset; nothing if all are.
std::optional<size_t> first_invalid(std::string_view text);

/// Which sides of a text strip() cuts.
enum class Sides : uint8_t { both, left, right };
/// str.strip(characters), lstrip, rstrip; no characters: white space.
std::string_view strip(std::string_view text, std::optional<std::string_view> characters, Sides sides = Sides::both);

/// str.split(separator, limit): at white space without one. limit: most cuts; below 0: no limit. A separator is not
/// empty.
std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> separator, int64_t limit);
/// str.rsplit() with a separator.
std::vector<std::string_view> split_from_right(std::string_view text, std::string_view separator, int64_t limit);
/// str.splitlines().
std::vector<std::string_view> split_lines(std::string_view text);

/// Place of the first `part` at or after `from`, in bytes; npos: none. Linear time.
size_t find_in(std::string_view text, std::string_view part, size_t from = 0);
/// Places of `part` that do not overlap; an empty part is found between all characters.
size_t count_in(std::string_view text, std::string_view part);
/// str.replace(old, by, limit); limit below 0: all.
std::string replace(std::string_view text, std::string_view old, std::string_view by, int64_t limit);

/// The characters, one by one.
std::vector<std::string_view> characters_of(std::string_view text);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// The first character in title case, the others in lower case.
std::string capitalize(std::string_view text);
/// Each word so.
std::string title(std::string_view text);

/// HTML's entities for & < > ' and ".
std::string escape_html(std::string_view text);
/// repr() of a text.
std::string quoted_text(std::string_view text);
/// repr() of a number: the fewest digits that give it back.
std::string number_text(double value);

/// A character whose upper or title case is several characters.
struct SpecialCase {
  char32_t code;
  const char* upper;
  const char* title;
};

/// By rising code.
std::span<const SpecialCase> special_cases();

}  // namespace trireme::chat
