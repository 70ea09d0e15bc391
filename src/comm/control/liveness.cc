#include "comm/control/liveness.h"

#include <fmt/format.h>

#include <algorithm>

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
  const std::string place = loss.place.empty() ? "" : fmt::format(" ({})", loss.place);
  return fmt::format("rank {}{} on {} was lost ({}) in {}", loss.rank, place, loss.host, loss.reason,
                     describe(loss.last));
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
  return {static_cast<int>(rank), ranks_[rank].host, ranks_[rank].state, std::move(reason), {}};
}

Loss Liveness::closed(int rank, Time now) const {
  const auto r = static_cast<size_t>(rank);
  return loss(r, connection_closed(seconds(now - ranks_[r].heard)));
}

std::optional<Loss> Liveness::judge(Time now) const {
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].joined && now - ranks_[r].heard > timeout_)
      return loss(r, fmt::format("no heartbeat for {:.1f} s", seconds(now - ranks_[r].heard)));
  }
  return stalled(now);
}

std::optional<Loss> Liveness::stalled(Time now) const {
  Clock::duration limit = timeout_;
  Time last = Time::min();
  bool awaited = false;
  for (const Rank& r : ranks_) {
    if (!r.joined) continue;
    last = std::max({last, r.moved, r.computed});
    awaited = awaited || !r.state.collective.empty();
    if (r.state.phase == Phase::start || r.state.phase == Phase::save)
      limit = std::max(limit, duration(kSlowPhaseSeconds));
  }
  if (!awaited || now - last <= limit) return {};
  // A rank that waits for no other keeps the others waiting; if all wait, the one with the least progress does.
  const auto behind = [](const Rank& a, const Rank& b) {
    if (a.joined != b.joined) return a.joined;
    const auto key = [](const Rank& r) { return std::tuple(!r.state.collective.empty(), r.state.step, r.moved); };
    return key(a) < key(b);
  };
  const auto culprit = std::min_element(ranks_.begin(), ranks_.end(), behind);
  return loss(static_cast<size_t>(culprit - ranks_.begin()),
              fmt::format("no rank has made progress for {:.1f} s", seconds(now - last)));
}

}  // namespace trireme
