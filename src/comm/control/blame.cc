#include "comm/control/liveness.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/count.h"

namespace trireme {
namespace {

const Standing& at(const Evidence& e, int rank) { return e.ranks[static_cast<size_t>(rank)]; }

/// Heartbeats of several ranks that stop together are not noticed in the same instant.
bool is_quiet(const Evidence& e, const Standing& rank) { return rank.silent > e.timeout / 2; }

template <class Condition>
bool any_on(const Evidence& e, const std::string& host, Condition condition) {
  return std::ranges::any_of(e.ranks, [&](const Standing& r) { return r.joined && r.host == host && condition(r); });
}

/// A rank of a third host that reached one of this host; negative: none did.
int who_reached(const Evidence& e, const std::string& host) {
  for (const Sighting& sighting : e.sightings) {
    const Standing& from = at(e, sighting.from);
    if (from.host == host || from.host == e.ranks[0].host || is_quiet(e, from)) continue;
    if (std::ranges::any_of(sighting.answered, [&](int rank) { return at(e, rank).host == host; }))
      return sighting.from;
  }
  return -1;
}

std::optional<Blame> blame_silence(const Evidence& e) {
  const auto first = std::ranges::find_if(e.ranks, [&](const Standing& r) { return r.joined && r.silent > e.timeout; });
  if (first == e.ranks.end()) return {};
  const auto rank = static_cast<int>(first - e.ranks.begin());
  const std::string reason = fmt::format("no heartbeat for {:.1f} s", first->silent);
  const std::string& hub = e.ranks[0].host;
  const bool host_is_heard = any_on(e, first->host, [&](const Standing& r) { return !is_quiet(e, r); });
  if (first->host == hub || host_is_heard) return Blame{rank, -1, reason};
  if (const int witness = who_reached(e, first->host); witness >= 0)
    return Blame{rank, 0, fmt::format("{}, but rank {} on {} reaches it", reason, witness, at(e, witness).host)};
  std::set<std::string> others;
  bool all_quiet = true;
  for (const Standing& r : e.ranks) {
    if (!r.joined || r.host == hub) continue;
    others.insert(r.host);
    all_quiet = all_quiet && is_quiet(e, r);
  }
  if (all_quiet && others.size() > 1)
    return Blame{0, -1, fmt::format("none of the {} other hosts is heard, for {:.1f} s", others.size(), first->silent)};
  return Blame{rank, -1, reason};
}

/// Two hosts, by their ranks that tried, the lower first, and what one of them said.
struct Cut {
  int low, high;
  std::string said;
};

/// A connection counts if ranks wait at both of its ends: somebody who computes may be why nothing moves.
std::vector<Cut> cuts_of(const Evidence& e) {
  const auto waits = [&](int rank) {
    return e.trouble || any_on(e, at(e, rank).host, [](const Standing& r) { return r.waits; });
  };
  std::map<std::pair<std::string, std::string>, Cut> found;
  for (const Sighting& sighting : e.sightings) {
    for (const auto& [to, why] : sighting.failed) {
      const int from = sighting.from;
      if (e.never.contains({from, to}) || !waits(from) || !waits(to)) continue;
      const int low = std::min(from, to), high = std::max(from, to);
      found.try_emplace({at(e, low).host, at(e, high).host},
                        Cut{low, high, fmt::format("{} cannot reach {}: {}", at(e, from).host, at(e, to).host, why)});
    }
  }
  std::vector<Cut> cuts;
  for (auto& [hosts, cut] : found) cuts.push_back(std::move(cut));
  std::ranges::sort(cuts, {}, [](const Cut& cut) { return std::pair(cut.low, cut.high); });
  return cuts;
}

std::optional<Blame> blame_cuts(const Evidence& e) {
  const std::vector<Cut> cuts = cuts_of(e);
  if (cuts.empty()) return {};
  std::map<int, int> cuts_at;
  for (const Cut& cut : cuts) ++cuts_at[cut.low], ++cuts_at[cut.high];
  // The last of hosts with equally many: rank 0 ends the job everywhere.
  const auto worst =
      std::ranges::max_element(cuts_at, {}, [](const auto& entry) { return std::pair(entry.second, entry.first); });
  const auto& [rank, count] = *worst;
  if (count == 1) return Blame{cuts[0].high, cuts[0].low, cuts[0].said};
  std::vector<std::string> lost;
  for (const Cut& cut : cuts) {
    if (cut.low == rank || cut.high == rank) lost.push_back(at(e, cut.low == rank ? cut.high : cut.low).host);
  }
  return Blame{rank, -1, fmt::format("its host has no connection to {}", fmt::join(lost, ", "))};
}

Blame blame_stall(const Evidence& e) {
  const std::string reason = fmt::format("no rank has made progress for {:.1f} s", e.still);
  int blamed = -1;
  const auto key = [&](int rank) { return std::tuple(at(e, rank).step, -at(e, rank).still); };
  for (int rank = 0; rank < static_cast<int>(e.ranks.size()); ++rank) {
    const Standing& r = at(e, rank);
    if (r.joined && !r.waits && (blamed < 0 || key(rank) < key(blamed))) blamed = rank;
  }
  if (blamed >= 0) return {blamed, -1, reason};
  return {-1, -1, reason + ", and every rank waits for others, which all hosts reach"};
}

}  // namespace

std::optional<Blame> blame(const Evidence& e) {
  if (auto silence = blame_silence(e)) return silence;
  const bool awaited = std::ranges::any_of(e.ranks, [](const Standing& r) { return r.joined && r.waits; });
  const bool stalled = awaited && e.still > e.timeout;
  if (!stalled && !e.trouble) return {};
  if (auto cut = blame_cuts(e)) return cut;
  if (!stalled || e.still <= e.stall_timeout) return {};
  return blame_stall(e);
}

Blame blame_for_silent_hub(int own_rank, double silent, double silent_when_asked,
                           const std::vector<WitnessReport>& witnesses) {
  const std::string reason = fmt::format("no heartbeat for {:.1f} s", silent);
  const auto hears = [&](const WitnessReport& w) { return w.answered && w.hub_silent < silent_when_asked / 2; };
  if (std::ranges::any_of(witnesses, hears)) return {own_rank, 0, reason + ", but another host hears it"};
  if (!witnesses.empty() && std::ranges::none_of(witnesses, &WitnessReport::answered))
    return {own_rank, -1, fmt::format("{}, and no other host answers", reason)};
  return {0, -1, reason};
}

}  // namespace trireme
