#include "comm/local/local_group.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <numeric>

#include "base/host.h"
#include "base/rng.h"
#include "comm/check.h"
#include "comm/local/meeting.h"

namespace trireme {
namespace local {
namespace {

constexpr int kMostTag = 32'767;  // the least that MPI guarantees (MPI_TAG_UB)

std::string_view name_of(Reduction reduction) {
  return reduction == Reduction::sum ? "sum" : reduction == Reduction::min ? "min" : "max";
}

/// y = reduction of the n elements of every member's contribution, in rank order.
template <class T>
void reduce(const Meeting& meeting, int members, int64_t n, Reduction reduction, T* y) {
  for (int r = 0; r < members; ++r) {
    const auto* x = reinterpret_cast<const T*>(meeting.contribution(static_cast<size_t>(r)).data());
    for (int64_t i = 0; i < n; ++i) {
      y[i] = r == 0                        ? x[i]
             : reduction == Reduction::sum ? y[i] + x[i]
             : reduction == Reduction::min ? std::min(y[i], x[i])
                                           : std::max(y[i], x[i]);
    }
  }
}

void reduce(const Meeting& meeting, int members, Reduction reduction, View y) {
  switch (y.dtype()) {
    case DType::f32:
      return reduce(meeting, members, y.count(), reduction, y.as<float>());
    case DType::f64:
      return reduce(meeting, members, y.count(), reduction, y.as<double>());
    case DType::i32:
      return reduce(meeting, members, y.count(), reduction, y.as<int32_t>());
    default:  // comm_check::reducible excludes others
      return reduce(meeting, members, y.count(), reduction, y.as<int64_t>());
  }
}

/// The n bytes of a member's contribution to place `place` of y, in units of n.
void copy_part(const Meeting& meeting, int member, size_t n, View y, int place) {
  if (n == 0) return;
  std::memcpy(static_cast<std::byte*>(y.data()) + static_cast<size_t>(place) * n,
              meeting.contribution(static_cast<size_t>(member)).data(), n);
}

using Finish = std::function<void(const Meeting&)>;

/// One rank's side of a meeting.
class Side final : public Handle::Operation {
 public:
  /// `taken_back`: called under the lock when this rank abandons an operation that no rank has matched.
  Side(std::shared_ptr<Group> group, std::shared_ptr<Meeting> meeting, int rank, size_t index, const Terms& terms,
       Clock::duration delay, Finish finish, std::function<void()> taken_back)
      : group_(std::move(group)),
        meeting_(std::move(meeting)),
        rank_(rank),
        index_(index),
        terms_(terms),
        delay_(delay),
        finish_(std::move(finish)),
        taken_back_(std::move(taken_back)),
        counted_(group_->world->options.live) {}

  ~Side() override {
    if (done_) return;
    const std::lock_guard lock(group_->world->mutex);
    if (!meeting_->give_up(index_)) taken_back_();
  }

  bool test() override {
    World& world = *group_->world;
    {
      const std::lock_guard lock(world.mutex);
      ++world.looks[static_cast<size_t>(group_->world_rank(rank_))];
      group_->check(terms_);
      meeting_->advance();
      const auto since = meeting_->settled(index_, terms_);
      if (!since || (delay_ > Clock::duration::zero() && Clock::now() < *since + delay_)) return false;
      done_ = true;
    }
    finish_(*meeting_);
    return true;
  }

 private:
  const std::shared_ptr<Group> group_;
  const std::shared_ptr<Meeting> meeting_;
  const int rank_;
  const size_t index_;
  const Terms terms_;
  const Clock::duration delay_;
  const Finish finish_;
  const std::function<void()> taken_back_;
  bool done_ = false;
  Counted counted_;
};

class Member final : public LocalCommunicator {
 public:
  Member(std::shared_ptr<Group> group, int rank)
      : group_(std::move(group)), rank_(rank), all_(static_cast<size_t>(group_->size())), counted_(live()) {
    std::iota(all_.begin(), all_.end(), 0);
  }

  ~Member() override {
    const std::lock_guard lock(group_->world->mutex);
    group_->left[static_cast<size_t>(rank_)] = 1;
    if (std::uncaught_exceptions() > 0) group_->revoke(rank_, "it left the group because of an exception");
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  std::string backend() const override { return "local"; }
  const std::string& host(int rank) const override { return group_->host(rank); }

  void revoke(int lost, std::string_view why) override {
    comm_check::rank("revoke", lost, size());
    const std::lock_guard lock(group_->world->mutex);
    group_->revoke(lost, why);
  }

  Handle all_reduce(View x, Reduction reduction) override {
    comm_check::reducible("all_reduce", x);
    return collective({"all_reduce", x.dtype(), x.count(), name_of(reduction)}, x,
                      [=, n = size()](const Meeting& m) { reduce(m, n, reduction, x); });
  }

  Handle all_gather(ConstView x, View y) override {
    comm_check::parts("all_gather", x, y, size());
    return collective({"all_gather", x.dtype(), x.count()}, x, [=, n = size()](const Meeting& m) {
      for (int r = 0; r < n; ++r) copy_part(m, r, x.bytes(), y, r);
    });
  }

  Handle broadcast(View x, int root) override {
    comm_check::rank("broadcast", root, size());
    const bool is_root = root == rank_;
    return collective({"broadcast", x.dtype(), x.count(), {}, root}, is_root ? x : View(), [=](const Meeting& m) {
      if (!is_root) copy_part(m, root, x.bytes(), x, 0);
    });
  }

  Handle barrier() override {
    return collective({"barrier"}, {}, [](const Meeting&) {});
  }

  Handle send(ConstView x, int to, int tag) override {
    comm_check::rank("send", to, size());
    comm_check::tag("send", tag);
    return message({"send", x.dtype(), x.count()}, {rank_, to, tag}, 0, x, [](const Meeting&) {});
  }

  Handle receive(View x, int from, int tag) override {
    comm_check::rank("receive", from, size());
    comm_check::tag("receive", tag);
    return message({"receive", x.dtype(), x.count()}, {from, rank_, tag}, 1, {},
                   [=](const Meeting& m) { copy_part(m, 0, x.bytes(), x, 0); });
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    const std::array<int32_t, 2> own{color, key};
    std::vector<std::array<int32_t, 2>> all(all_.size());
    std::shared_ptr<Meeting> meeting;
    const auto gather = [&](const Meeting& m) {
      for (int r = 0; r < size(); ++r) {
        const auto& given = m.contribution(static_cast<size_t>(r));
        std::memcpy(all[static_cast<size_t>(r)].data(), given.data(), sizeof own);
      }
    };
    collective({"split"}, ConstView(own.data(), DType::i32, Shape{2}), gather, &meeting)
        .wait("all ranks to split a group");
    std::vector<int> members;  // ranks here
    for (const int r : all_) {
      if (all[static_cast<size_t>(r)][0] == color) members.push_back(r);
    }
    std::stable_sort(members.begin(), members.end(),
                     [&](int a, int b) { return all[static_cast<size_t>(a)][1] < all[static_cast<size_t>(b)][1]; });
    const auto place = std::find(members.begin(), members.end(), rank_) - members.begin();
    const std::lock_guard lock(group_->world->mutex);
    std::shared_ptr<Group>& part = meeting->parts[color];
    if (!part) {
      for (int& member : members) member = group_->world_rank(member);
      part = std::make_shared<Group>(group_->world, group_, std::move(members));
    }
    return std::make_unique<Member>(part, static_cast<int>(place));
  }

 private:
  const std::shared_ptr<std::atomic<int64_t>>& live() const { return group_->world->options.live; }

  Clock::duration delay_of(std::string_view call) {
    const int64_t number = calls_++;
    const LocalDelay& delay = group_->world->options.delay;
    return delay ? Clock::duration(delay({group_->world_rank(rank_), call, number})) : Clock::duration::zero();
  }

  /// `met`: set if the caller needs it.
  Handle collective(const Terms& terms, ConstView given, Finish finish, std::shared_ptr<Meeting>* met = nullptr) {
    const int64_t number = collectives_++;
    const Clock::duration delay = delay_of(terms.call);
    const std::lock_guard lock(group_->world->mutex);
    group_->check(terms);
    auto& waiting = group_->collectives;
    std::shared_ptr<Meeting>& place = waiting[number];
    if (!place) place = std::make_shared<Meeting>(*group_, Meeting::Kind::collective, all_);
    const std::shared_ptr<Meeting> meeting = place;
    if (met) *met = meeting;
    const auto index = static_cast<size_t>(rank_);
    meeting->come(index, terms, given, false);
    if (meeting->complete()) waiting.erase(number);
    return Handle(std::make_unique<Side>(group_, meeting, rank_, index, terms, delay, std::move(finish), [] {}));
  }

  /// index 0: the sender's side, 1: the receiver's.
  Handle message(const Terms& terms, const Group::Route& route, size_t index, ConstView given, Finish finish) {
    const auto [from, to, tag] = route;
    require(tag >= 0 && tag <= kMostTag, ErrorKind::shape, "{}: got tag {}, expected 0 to {}", terms.call, tag,
            kMostTag);
    const Clock::duration delay = delay_of(terms.call);
    const World& world = *group_->world;
    const std::lock_guard lock(group_->world->mutex);
    group_->check(terms);
    auto& queue = group_->messages[route];  // of sends, or of receives
    const bool answers = !queue.empty() && queue.front()->awaits(index);
    const std::shared_ptr<Meeting> meeting =
        answers ? queue.front() : std::make_shared<Meeting>(*group_, Meeting::Kind::message, std::vector{from, to});
    const bool copies = index == 0 && !world.options.rendezvous;
    meeting->come(index, terms, given, copies);
    answers ? queue.pop_front() : queue.push_back(meeting);
    if (queue.empty()) group_->messages.erase(route);
    auto withdraw = [group = group_.get(), route, meeting = meeting.get()] { remove(*group, route, meeting); };
    return Handle(std::make_unique<Side>(group_, meeting, rank_, index, terms, delay, std::move(finish), withdraw));
  }

  static void remove(Group& group, const Group::Route& route, const Meeting* meeting) {
    const auto found = group.messages.find(route);
    if (found == group.messages.end()) return;
    std::erase_if(found->second, [&](const auto& waiting) { return waiting.get() == meeting; });
    if (found->second.empty()) group.messages.erase(found);
  }

  const std::shared_ptr<Group> group_;
  const int rank_;
  std::vector<int> all_;  ///< every rank
  // Used by the one issuing thread only, so not guarded: the thread sanitizer finds a second one.
  int64_t collectives_ = 0, calls_ = 0;
  Counted counted_;
};

}  // namespace
}  // namespace local

LocalDelay random_delays(uint64_t seed, std::chrono::microseconds longest) {
  return [=](const LocalCall& call) {
    RandomStream random(mix_key(seed, call.rank, call.number));
    return std::chrono::microseconds(random.below(static_cast<uint64_t>(longest.count()) + 1));
  };
}

std::vector<std::unique_ptr<LocalCommunicator>> make_local_group(int size, LocalOptions options) {
  require(size > 0 && (options.hosts.empty() || options.hosts.size() == static_cast<size_t>(size)), ErrorKind::config,
          "a group of {} local ranks with {} host names: give at least one rank, and a name for each or none", size,
          options.hosts.size());
  if (options.hosts.empty()) options.hosts.assign(static_cast<size_t>(size), host_name());
  auto world = std::make_shared<local::World>();
  world->options = std::move(options);
  world->looks.resize(static_cast<size_t>(size));
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = std::make_shared<local::Group>(world, nullptr, ranks);
  std::vector<std::unique_ptr<LocalCommunicator>> members;
  for (const int rank : ranks) members.push_back(std::make_unique<local::Member>(group, rank));
  return members;
}

RankContext rank_context(LocalCommunicator& world, Heartbeat* heartbeat) {
  world.report_to(heartbeat);
  RankContext context{.world = world,
                      .host = world.host(world.rank()),
                      .hosts = {},
                      .log_name = fmt::format("rank {}", world.rank()),
                      .heartbeat = heartbeat};
  std::vector<int> host_of;  // the first rank there
  for (int r = 0; r < world.size(); ++r) {
    int first = 0;
    while (world.host(first) != world.host(r)) ++first;
    host_of.push_back(first);
  }
  context.hosts = HostMap(host_of);
  return context;
}

}  // namespace trireme
