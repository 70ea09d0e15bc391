#pragma once
// Slurm's host list expressions: "a-[1-2,05-07],b,r[1-2]n[1-2]".

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// The names of the expression, in its order, with duplicates; the leftmost bracket varies slowest. A name may have
/// several brackets and must end with the last one; a range keeps the width of its lower end ("05-07" is 05 06 07).
/// Names are separated by commas, blanks or line ends. Throws Error::config naming `where`, the name and the column for
/// an unclosed bracket, an empty or descending range, text after the last bracket, or more than 65536 names (Slurm's
/// limit).
std::vector<std::string> expand_hostlist(std::string_view expression, std::string_view where);

/// The shortest expression that expands to exactly `names`, in their order: neighbours that differ only in an ascending
/// number of equal width become one range.
std::string compress_hostlist(std::span<const std::string> names);

/// Splits `text` at every comma, blank or line end outside brackets, without empty parts.
std::vector<std::string_view> split_outside_brackets(std::string_view text);

}  // namespace trireme
