#include "comm/local/meeting.h"

#include <algorithm>
#include <cassert>

namespace trireme::local {

std::string Terms::describe() const {
  std::string text(call);
  if (!detail.empty()) text += fmt::format(" ({})", detail);
  if (root >= 0) text += fmt::format(" from rank {}", root);
  return count > 0 ? text + fmt::format(" of {} {}", count, name_of(dtype)) : text;
}

Meeting::Meeting(Group& group, Kind kind, std::vector<int> members)
    : group_(group),
      kind_(kind),
      members_(std::move(members)),
      places_(members_.size()),
      counted_(group.world->options.live) {}

void Meeting::come(size_t index, const Terms& terms, ConstView given, bool copies) {
  Place& place = places_[index];
  assert(place.state == Place::State::awaited);
  place.terms = terms;
  place.given = given;
  if (copies) take(place);
  for (size_t i = 0; i < places_.size() && fault_.empty(); ++i) {
    if (places_[i].state == Place::State::awaited || fit(places_[i].terms, terms)) continue;
    fault_ = fmt::format("{} called {} but {} called {}; {}", group_.name(members_[i]), places_[i].terms.describe(),
                         group_.name(members_[index]), terms.describe(),
                         kind_ == Kind::message ? "both sides of a message must name the same type and length"
                                                : "every rank must issue the same calls in the same order");
  }
  place.state = Place::State::here;
  ++come_;
  if (!complete()) return;
  for (size_t i = 0; i < places_.size(); ++i) places_[i].looks = looks_of(i);
  if (!group_.world->options.progress_in_test) take();
}

bool Meeting::give_up(size_t index) {
  Place& place = places_[index];
  if (place.settled) return true;
  place.state = Place::State::gone;
  place.given = {};
  return std::any_of(places_.begin(), places_.end(), [](const Place& p) { return p.state == Place::State::here; });
}

void Meeting::advance() {
  if (taken_ || !complete()) return;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!places_[i].settled && looks_of(i) == places_[i].looks) return;
  }
  take();
}

std::optional<Clock::time_point> Meeting::settled(size_t index, const Terms& own) const {
  if (places_[index].settled) return places_[index].settled;
  require(fault_.empty(), ErrorKind::comm, "{}", fault_);
  for (size_t i = 0; i < places_.size(); ++i) {
    const bool left = group_.left[static_cast<size_t>(members_[i])] != 0;
    if (places_[i].state == Place::State::gone) {
      throw LostMember(fmt::format("{}: {} has abandoned it", own.describe(), group_.name(members_[i])));
    }
    if (places_[i].state == Place::State::awaited && left) {
      throw LostMember(fmt::format("{}: {} has left the group", own.describe(), group_.name(members_[i])));
    }
  }
  return {};
}

bool Meeting::fit(const Terms& a, const Terms& b) const {
  const bool one_call = kind_ == Kind::message || a.call == b.call;
  return one_call && a.dtype == b.dtype && a.count == b.count && a.detail == b.detail && a.root == b.root;
}

bool Meeting::all_here() const {
  return std::all_of(places_.begin(), places_.end(), [](const Place& p) { return p.state == Place::State::here; });
}

uint64_t Meeting::looks_of(size_t index) const {
  return group_.world->looks[static_cast<size_t>(group_.world_rank(members_[index]))];
}

void Meeting::take() {
  if (!fault_.empty() || !all_here()) return;
  taken_ = true;
  for (Place& place : places_) {
    if (!place.settled) take(place);
  }
}

void Meeting::take(Place& place) {
  const auto* bytes = static_cast<const std::byte*>(place.given.data());
  place.taken.assign(bytes, bytes + place.given.bytes());
  place.given = {};
  place.settled = Clock::now();
}

Group::Group(std::shared_ptr<World> world_in, std::shared_ptr<Group> parent_in, std::vector<int> ranks)
    : world(std::move(world_in)),
      parent(std::move(parent_in)),
      world_ranks(std::move(ranks)),
      left(world_ranks.size()),
      counted(world->options.live) {}

std::string Group::name(int rank) const { return fmt::format("rank {} on {}", world_rank(rank), host(rank)); }

void Group::check(const Terms& call) const {
  for (const Group* group = this; group; group = group->parent.get()) {
    if (group->loss.empty()) continue;
    throw LostMember(fmt::format("{}: {}; this group has ended, make a new one of the remaining ranks", call.describe(),
                                 group->loss));
  }
}

void Group::revoke(int lost, std::string_view why) {
  if (loss.empty()) loss = fmt::format("{} was lost: {}", name(lost), why);
}

}  // namespace trireme::local
