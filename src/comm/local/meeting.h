#pragma once
// State shared by local ranks, inside comm/local: the world, its groups, and the meetings that exchange data. The
// world's one mutex guards all of it, so that groups cannot deadlock; contributions are constant once taken and are
// read without it.

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <tuple>

#include "base/time.h"
#include "comm/local/local_group.h"

namespace trireme::local {

/// Counted by LocalOptions::live.
class Counted {
 public:
  explicit Counted(std::shared_ptr<std::atomic<int64_t>> live) : live_(std::move(live)) {
    if (live_) ++*live_;
  }
  ~Counted() {
    if (live_) --*live_;
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::shared_ptr<std::atomic<int64_t>> live_;
};

struct World {
  LocalOptions options;
  std::mutex mutex;
  std::vector<uint64_t> looks;  ///< calls of test() by each rank
};

/// Must be equal on all ranks that meet.
struct Terms {
  std::string_view call;
  DType dtype = DType::u8;
  int64_t count = 0;             ///< elements of the argument whose length all ranks share
  std::string_view detail = {};  ///< "sum", ...
  int root = -1;                 ///< -1: none

  std::string describe() const;  ///< "all_reduce (sum) of 100 f32"
};

struct Group;

/// One collective, or one message.
class Meeting {
 public:
  enum class Kind { collective, message };
  /// `members`: ranks of the group that it needs; a message: {sender, receiver}.
  Meeting(Group& group, Kind kind, std::vector<int> members);

  /// Member `index` arrives and gives the view's data, which stays unchanged until settled(index). `copies`: it gives a
  /// copy instead and is settled at once.
  void come(size_t index, const Terms& terms, ConstView given, bool copies);
  /// Member `index` will not wait for the end. False: no member is left.
  bool give_up(size_t index);
  /// Takes the contributions if all have arrived and, with progress_in_test, polled.
  void advance();
  /// Since when member `index` could be done; empty: not yet. Throws Error::comm if terms differ, LostMember if a
  /// missing member will never arrive; `own`: this member's call.
  std::optional<Clock::time_point> settled(size_t index, const Terms& own) const;
  bool awaits(size_t index) const { return places_[index].state == Place::State::awaited; }
  bool complete() const { return come_ == members_.size(); }

  /// The contribution of member `index`; once settled.
  const std::vector<std::byte>& contribution(size_t index) const { return places_[index].taken; }

  std::map<int, std::shared_ptr<Group>> parts;  ///< of a split, by color

 private:
  struct Place {
    enum class State { awaited, here, gone } state = State::awaited;
    Terms terms;
    ConstView given;
    std::vector<std::byte> taken;
    std::optional<Clock::time_point> settled;
    uint64_t looks = 0;  ///< of its rank when the last member arrived
  };
  bool fit(const Terms& a, const Terms& b) const;
  bool all_here() const;
  uint64_t looks_of(size_t index) const;
  void take();
  static void take(Place& place);

  Group& group_;
  const Kind kind_;
  std::vector<int> members_;
  std::vector<Place> places_;
  size_t come_ = 0;
  bool taken_ = false;
  std::string fault_;
  Counted counted_;
};

struct Group {
  /// parent: nullptr for the world's.
  Group(std::shared_ptr<World> world_in, std::shared_ptr<Group> parent_in, std::vector<int> ranks);
  int size() const { return static_cast<int>(world_ranks.size()); }
  /// "rank 2 on node1", the rank in the world.
  std::string name(int rank) const;
  const std::string& host(int rank) const { return world->options.hosts[static_cast<size_t>(world_rank(rank))]; }
  int world_rank(int rank) const { return world_ranks[static_cast<size_t>(rank)]; }
  /// Throws LostMember once this group or one that it was split from is revoked.
  void check(const Terms& call) const;
  void revoke(int lost, std::string_view why);

  const std::shared_ptr<World> world;
  const std::shared_ptr<Group> parent;
  const std::vector<int> world_ranks;
  std::vector<char> left;                                          ///< by rank
  std::string loss;                                                ///< why it is revoked; empty: not revoked
  std::map<int64_t, std::shared_ptr<Meeting>> collectives;         ///< whose members have not all arrived, by number
  using Route = std::tuple<int, int, int>;                         ///< sender, receiver, tag
  std::map<Route, std::deque<std::shared_ptr<Meeting>>> messages;  ///< of which one half is posted, oldest first
  Counted counted;
};

}  // namespace trireme::local
