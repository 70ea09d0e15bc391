#include "cloud/folded.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "cluster/hostlist.h"

namespace trireme::cloud {

std::string folded(const std::vector<std::pair<std::string, std::string>>& answers) {
  constexpr size_t kMostBytes = size_t{1} << 20;  // of an answer
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const auto& [node, text] : answers) {
    auto group = std::ranges::find(groups, text, [](const auto& one) { return one.first; });
    if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
    group->second.push_back(node);
  }
  std::string out;
  for (const auto& [text, nodes] : groups) {
    out += fmt::format("---- {} ({}) ----\n{}", compress_hostlist(nodes), nodes.size(), printable(text, kMostBytes));
    if (!out.ends_with('\n')) out += '\n';
  }
  return out;
}

}  // namespace trireme::cloud
