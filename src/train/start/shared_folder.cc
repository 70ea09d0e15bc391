#include "train/start/shared_folder.h"

#include <filesystem>

#include "base/folder_token.h"
#include "comm/agreement.h"
#include "comm/proof.h"

namespace trireme {

std::string folder_apart(const std::string& folder, std::string_view option, Scalars& scalars, std::string_view host) {
  if (scalars.size() == 1) return {};
  const bool first = scalars.rank() == 0;
  const std::string token = scalars.broadcast(first ? token_name() : std::string());
  together(scalars, [&] {
    if (first) leave_token(folder, token);
  });
  const bool seen = find_token(folder, token, kTokenSeconds);
  std::error_code ignored;
  const auto blind = scalars.gather(seen ? std::string() : std::filesystem::absolute(folder, ignored).string());
  if (first) take_token(folder, token);
  std::vector<int> ranks;
  for (size_t r = 0; r < blind.size(); ++r) {
    if (!blind[r].empty()) ranks.push_back(static_cast<int>(r));
  }
  if (ranks.empty()) return {};
  const auto hosts = scalars.gather(host);
  return fmt::format(
      "the run folder is not the same on every host: {} {} not see in {} what rank 0 on {} wrote there, so snapshots "
      "would be incomplete; put it on a file system that all hosts share and name it with {}",
      names_of(ranks, hosts), ranks.size() == 1 ? "does" : "do", blind[static_cast<size_t>(ranks[0])], hosts[0],
      option);
}

}  // namespace trireme
