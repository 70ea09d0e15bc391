#pragma once
// Slurm's host list expressions: "a-[1-2,05-07],b,r[1-2]n[1-2]".

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Names behind the expression, in its order, duplicates kept, the leftmost bracket varying slowest. A name may hold
/// several brackets and must end with its last one; a range keeps the digits of its lower end ("05-07" is 05 06 07).
/// Names are separated by commas, blanks or line ends. Throws Error::config naming `where`, the name and the column for
/// a bracket that does not close, an empty or falling range, text behind the last bracket, or more than 65536 names
/// (Slurm's own bound).
std::vector<std::string> expand_hostlist(std::string_view expression, std::string_view where);

/// The shortest expression that expands to exactly `names`, in their order: neighbours that differ only in a rising
/// number of equal width become one range.
std::string compress_hostlist(std::span<const std::string> names);

/// `text` at every comma, blank or line end that is outside brackets; empty parts are dropped.
std::vector<std::string_view> split_outside_brackets(std::string_view text);

}  // namespace trireme
