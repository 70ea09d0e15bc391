#include "cluster/launch/host_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/hostlist.h"

namespace trireme {

HostPool::HostPool(std::vector<Host> hosts, int spares, PlacementRequest request)
    : hosts_(std::move(hosts)), request_(request) {
  require(static_cast<size_t>(spares) < hosts_.size(), ErrorKind::config,
          "--spares {}: found {}, but at least one must run the job", spares, count_text(hosts_.size(), "host"));
  spares_.assign(hosts_.end() - spares, hosts_.end());
  hosts_.resize(hosts_.size() - static_cast<size_t>(spares));
  placement_ = place(hosts_, request_);
}

std::vector<std::string> HostPool::names() const {
  std::vector<std::string> names;
  for (const Placement& entry : placement_) names.push_back(entry.host);
  return names;
}

bool HostPool::offer_ranks(std::span<const int> counts) {
  if (!trireme::offer_ranks(hosts_, counts, request_)) return false;
  placement_ = place(hosts_, request_);
  return true;
}

bool HostPool::leave_out(const std::vector<std::string>& failed, bool may_shrink) {
  const auto has_failed = [&](const Host& host) { return std::ranges::find(failed, host.name) != failed.end(); };
  std::vector<Host> kept = hosts_, waiting = spares_;
  std::erase_if(waiting, has_failed);
  const size_t lost = std::erase_if(kept, has_failed);
  if (lost == 0 || (waiting.size() < lost && !may_shrink)) return false;
  const size_t fresh = std::min(lost, waiting.size());
  if (kept.empty() && fresh == 0) return false;
  for (size_t i = 0; i < fresh; ++i) log::warning("launch: using spare host {}", waiting[i].name);
  kept.insert(kept.end(), waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(fresh));
  waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(fresh));
  if (lost > fresh)
    log::warning("launch: continuing without {} of {}", lost - fresh, count_text(hosts_.size(), "host"));
  hosts_ = std::move(kept);
  spares_ = std::move(waiting);
  placement_ = place(hosts_, request_);
  return true;
}

std::string to_text(const std::vector<Placement>& placement) {
  std::vector<std::pair<int, std::vector<std::string>>> groups;
  for (const Placement& entry : placement) {
    if (groups.empty() || groups.back().first != entry.processes) groups.push_back({entry.processes, {}});
    groups.back().second.push_back(entry.host);
  }
  std::string text;
  for (const auto& [processes, names] : groups) {
    text += fmt::format("{}{} {}{}", text.empty() ? "" : ", ", compress_hostlist(names), processes,
                        names.size() == 1 ? "" : " each");
  }
  return text;
}

}  // namespace trireme
