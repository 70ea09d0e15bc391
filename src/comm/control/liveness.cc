#include "comm/control/liveness.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace trireme {
namespace {

// Start-up reads data and compiles kernels, a save waits for the disk: neither reports its progress often.
constexpr double kSlowPhaseSeconds = 120;
// CPU time between two heartbeats; a blocked thread uses none, one that waits for a slow disk little.
constexpr double kComputes = 1e-3;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

std::string describe(const Loss& loss) {
  if (loss.rank < 0) return "no rank can be blamed: " + loss.reason;
  const std::string place = loss.place.empty() ? "" : fmt::format(" ({})", loss.place);
  const std::string name = fmt::format("rank {}{} on {}", loss.rank, place, loss.host);
  if (loss.other >= 0) {
    return fmt::format("{} and rank {} on {} cannot reach each other ({}) in {}", name, loss.other, loss.other_host,
                       loss.reason, describe(loss.last));
  }
  return fmt::format("{} was lost ({}) in {}", name, loss.reason, describe(loss.last));
}

std::string connection_closed(double since_heartbeat) {
  return fmt::format("its connection closed {:.1f} s after its last heartbeat", since_heartbeat);
}

Liveness::Liveness(int ranks, double timeout, Time now)
    : ranks_(static_cast<size_t>(ranks)), timeout_(duration(timeout)) {
  for (Rank& rank : ranks_) rank.heard = rank.moved = rank.computed = now;
}

void Liveness::join(int rank, std::string host, Time now) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  r.joined = true;
  r.host = std::move(host);
  r.heard = r.moved = r.computed = now;
}

void Liveness::leave(int rank) { ranks_[static_cast<size_t>(rank)].joined = false; }

void Liveness::heard(int rank, const RankState& state, Time now) {
  Rank& r = ranks_[static_cast<size_t>(rank)];
  r.heard = now;
  if (state.moves != r.state.moves) r.moved = now;
  // A thread that waits for others polls repeatedly, which is not compute.
  if (state.collective.empty() && state.cpu_seconds > r.state.cpu_seconds + kComputes) r.computed = now;
  r.state = state;
}

std::vector<PeerView> Liveness::views() const {
  std::vector<PeerView> views;
  for (size_t i = 0; i < ranks_.size(); ++i)
    views.push_back({static_cast<int>(i), ranks_[i].host, ranks_[i].state, ranks_[i].joined});
  return views;
}

void Liveness::slept(Clock::duration time) {
  for (Rank& r : ranks_) {
    for (Time* t : {&r.heard, &r.moved, &r.computed}) *t += time;
  }
}

Loss Liveness::loss(size_t rank, std::string reason) const {
  return {static_cast<int>(rank), ranks_[rank].host, ranks_[rank].state, std::move(reason)};
}

Loss Liveness::closed(int rank, Time now) const {
  const auto r = static_cast<size_t>(rank);
  Loss lost = loss(r, connection_closed(seconds(now - ranks_[r].heard)));
  lost.ended = true;
  return lost;
}

Evidence Liveness::evidence(Time now) const {
  Evidence e{.ranks = {}, .timeout = seconds(timeout_), .stall_timeout = seconds(timeout_)};
  Time last = Time::min();
  for (const Rank& r : ranks_) {
    e.ranks.push_back({.host = r.host,
                       .joined = r.joined,
                       .waits = !r.state.collective.empty(),
                       .silent = seconds(now - r.heard),
                       .still = seconds(now - r.moved),
                       .step = r.state.step});
    if (!r.joined) continue;
    last = std::max({last, r.moved, r.computed});
    if (r.state.phase == Phase::start || r.state.phase == Phase::save)
      e.stall_timeout = std::max(e.stall_timeout, kSlowPhaseSeconds);
  }
  if (last != Time::min()) e.still = seconds(now - last);
  return e;
}

std::optional<Loss> Liveness::judge(const Evidence& e) const {
  std::optional<Blame> found = blame(e);
  if (!found) return {};
  if (found->rank < 0) {
    Loss nobody{.rank = -1, .reason = std::move(found->reason)};
    for (const Rank& r : ranks_) nobody.last.step = std::max(nobody.last.step, r.state.step);
    return nobody;
  }
  Loss named = loss(static_cast<size_t>(found->rank), std::move(found->reason));
  named.other = found->other;
  if (found->other >= 0) named.other_host = ranks_[static_cast<size_t>(found->other)].host;
  return named;
}

bool Liveness::suspects(const Evidence& e) const {
  bool quiet = false, some_wait = false, all_wait = true;
  for (const Standing& r : e.ranks) {
    if (!r.joined) continue;
    quiet = quiet || r.silent > e.timeout / 2;
    some_wait = some_wait || r.waits;
    all_wait = all_wait && r.waits;
  }
  return quiet || (some_wait && e.still > (all_wait ? e.timeout / 2 : e.stall_timeout));
}

std::vector<int> Liveness::first_of_hosts() const {
  std::vector<int> firsts;
  std::set<std::string> hosts;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].joined && hosts.insert(ranks_[r].host).second) firsts.push_back(static_cast<int>(r));
  }
  return firsts;
}

}  // namespace trireme
