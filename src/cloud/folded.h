#pragma once
#include <string>
#include <utility>
#include <vector>

namespace trireme::cloud {

/// What nodes answered, safe on a terminal: equal answers once, below a line "---- n[1-3] (3) ----" with the nodes that
/// gave them, in the order of the first of these.
std::string folded(const std::vector<std::pair<std::string, std::string>>& answers);

}  // namespace trireme::cloud
