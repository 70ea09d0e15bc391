#include "optim/reducer.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <utility>

#include "base/error.h"
#include "base/time.h"
#include "comm/heartbeat.h"
#include "exchange/device_group.h"
#include "exchange/message_group.h"
#include "optim/ownership.h"

namespace trireme {
namespace {

constexpr const char* kWhat = "the sum of gradients";

/// The stripes before the sparse rows.
std::vector<Stripe> dense_stripes(const Ownership& ownership, const SparseRows& rows) {
  return rows.count > 0 ? ownership.before(rows.begin) : ownership.stripes();
}

ReductionPlan plan_of(const ReducerOptions& options) {
  return {options.wire, options.sums, options.one_host, options.chunk_bytes, options.hosts};
}

GroupOptions::Chunks chunks_of(const Ownership& ownership, const ReductionStage& stage, const ReducerOptions& options) {
  int64_t longest = 0;
  for (const Stripe& stripe : ownership.stripes()) longest = std::max(longest, stripe.longest());
  const int64_t most = options.devices ? device_chunk_limit(stage.route.ranks, stage.route.wire)
                                       : ChunkPipeline::chunk_limit(stage.route, stage.chunk_bytes);
  return {stage.route, std::min(longest, most), options.by_library};
}

size_t map_bytes(const SparseRows& rows) {
  return static_cast<size_t>(touched_rows::map_words(rows.count)) * sizeof(int64_t);
}

}  // namespace

/// Everything that the groups' thread uses.
class Reducer::Groups {
 public:
  Groups(View gradients, Communicator& group, Ops& ops, const Ownership& ownership, ReducerOptions options)
      : gradients_(gradients),
        ranks_(group.size()),
        rank_(group.rank()),
        heartbeat_(group.heartbeat()),
        ops_(ops),
        ownership_(ownership),
        options_(std::move(options)),
        issued_at_once_(ops.device().network() != nullptr),
        dense_(dense_stripes(ownership, options_.rows)),
        events_(dense_.size()),
        maps_(map_bytes(options_.rows), ops.device()),
        map_(maps_.take(DType::i64, Shape{touched_rows::map_words(options_.rows.count)})),
        all_maps_(static_cast<size_t>(map_.count() * ranks_)),
        thread_(std::make_shared<ProgressThread>(heartbeat_, options_.cpus, ProgressThread::Pace())) {
    const std::vector<ReductionStage> plan = reduction_stages(plan_of(options_), ranks_, rank_);
    for (const ReductionStage& stage : plan) {
      const auto place = std::ranges::find(stage.group, rank_) - stage.group.begin();
      stages_.push_back({stage, make_stream_group(group, ops,
                                                  {.chunks = chunks_of(ownership_, stage, options_),
                                                   .thread = thread_,
                                                   .color = stage.group.front(),
                                                   .key = static_cast<int>(place)})});
    }
    if (options_.rows.count > 0 && !issued_at_once_) all_ranks_ = make_stream_group(group, ops, {.thread = thread_});
    for (const Stripe& stripe : dense_) turns_.push_back(turns_of(stripe));
    if (!issued_at_once_ || options_.rows.count == 0) return;
    const std::vector<int64_t> all(static_cast<size_t>(map_.count()), -1);
    for (const Stripe& stripe : ownership_.packed(options_.rows, all)) row_turns_.push_back(turns_of(stripe));
  }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  /// False: it has failed, or is in the middle of a step.
  bool end() {
    bool done = thread_->end();
    for (const Stage& stage : stages_) done = stage.group->end() && done;
    return done;
  }

  void begin() {
    assert(!busy_);
    busy_ = true;
    rows_begun_ = false;
    posted_ = 0;
    times_ = {};
    bytes_before_ = bytes_sent();
    if (heartbeat_) heartbeat_->begin_chunks();
  }

  void ready(int64_t end) {
    if (!busy_) return;
    post_until(end, ops_.device().stream().record());
    if (heartbeat_) heartbeat_->move();
  }

  void finish() {
    if (issued_at_once_) return finish_issuing();
    ops_.device().stream().finish();
    if (!busy_) return;
    const auto start = Clock::now();
    const Waiting waiting(heartbeat_, kWhat, static_cast<uint64_t>(size()) * size_of(options_.wire));
    post_until(size(), {});
    if (options_.rows.count > 0) {
      rows_posted_.wait();
    } else {
      ended_ = run_after_all([this](DeviceStream&) { end_time_ = Clock::now(); });
    }
    ended_.wait();
    times_.exposed_seconds = seconds_since(start);
    times_.total_seconds = std::chrono::duration<double>(end_time_ - start_time_).count();
    times_.wire_bytes = bytes_sent() - bytes_before_;
    busy_ = false;
  }

  /// The device's compute waits, the host does not.
  void finish_issuing() {
    if (!std::exchange(busy_, false)) return;
    post_until(size(), ops_.device().stream().record());
    last_stage().wait(run_after_all([](DeviceStream&) {}), kWhat,
                      static_cast<uint64_t>(size()) * size_of(options_.wire));
    times_.wire_bytes = bytes_sent() - bytes_before_;
  }

  void wait_until_summed(int64_t end) {
    size_t stripes = 0;  // that end there or before
    while (stripes < dense_.size() && dense_[stripes].ready_end <= end) ++stripes;
    stripes = std::min(stripes, posted_);
    if (busy_ && stripes > 0) last_stage().wait(events_[stripes - 1], kWhat, 0);
  }

  const ExchangeTimes& times() const { return times_; }
  std::shared_ptr<ProgressThread> thread() const { return thread_; }
  bool issued_at_once() const { return issued_at_once_; }

 private:
  /// One exchange of the plan.
  struct Stage {
    ReductionStage definition;
    std::unique_ptr<StreamGroup> group;
  };
  /// The pieces of a stripe, by stage and turn.
  using Turns = std::vector<std::vector<std::vector<ElementRange>>>;

  int64_t size() const { return gradients_.count(); }
  StreamGroup& last_stage() { return *stages_.back().group; }

  /// Runs the work on the last stage once every stage has done what was posted to it: the last one may have nothing to
  /// do for a stripe. Any thread.
  Event run_after_all(std::function<void(DeviceStream&)> work) {
    Event before;
    for (size_t i = 0; i + 1 < stages_.size(); ++i) before = stages_[i].group->run([](DeviceStream&) {}, before);
    return last_stage().run(std::move(work), before);
  }

  uint64_t bytes_sent() const {
    uint64_t bytes = 0;
    for (const Stage& stage : stages_) bytes += stage.group->bytes_sent();
    return bytes;
  }

  Turns turns_of(const Stripe& stripe) const {
    Turns turns(stages_.size());
    for (size_t i = 0; i < stages_.size(); ++i) {
      for (const Stripe& turn : stages_[i].definition.turns(stripe)) {
        std::vector<ElementRange>& pieces = turns[i].emplace_back();
        for (const ParameterRange& piece : turn.pieces) pieces.push_back({piece.begin, piece.end});
      }
    }
    return turns;
  }

  /// Starts what elements [0, end) complete, once `after` is reached.
  void post_until(int64_t end, const Event& after) {
    if (posted_ == 0) start_time_ = Clock::now();
    for (; posted_ < dense_.size() && dense_[posted_].ready_end <= end; ++posted_) {
      Event& summed = events_[posted_] = exchange(turns_[posted_], after);
      if (!options_.summed) continue;
      summed = last_stage().run(
          [this, range = dense_[posted_].range()](DeviceStream& stream) { tell_summed(stream, range); }, summed);
    }
    if (options_.rows.count > 0 && end >= size() && !std::exchange(rows_begun_, true)) post_rows(after);
  }

  /// All stages of a stripe's sum. Any thread.
  Event exchange(const Turns& turns, Event after) {
    for (size_t i = 0; i < stages_.size(); ++i) {
      Event last = after;
      for (const std::vector<ElementRange>& pieces : turns[i]) last = exchange(stages_[i], pieces, after);
      after = std::move(last);
    }
    return after;
  }

  Event exchange(Stage& stage, const std::vector<ElementRange>& pieces, const Event& after) {
    StreamGroup& group = *stage.group;
    const RankOrderSum sum{stage.definition.route.wire};
    const ElementRange& own = pieces[static_cast<size_t>(group.rank())];
    switch (stage.definition.route.exchange) {
      case Exchange::reduce:
        return group.scatter_sum(gradients_, pieces, gradients_.rows_slice(own.begin, own.count()), sum, after);
      case Exchange::reduce_and_share:
        return group.sum(gradients_, pieces, sum, after);
      default:
        return group.gather(gradients_, pieces, sum.wire, after);
    }
  }

  void tell_summed(DeviceStream& stream, ParameterRange range) {
    Context context{.threads = 1, .stream = &stream};
    options_.summed(context, range);
  }

  /// Packs and exchanges the rows that any rank has touched, after all stripes; where calls are issued at once, all
  /// rows, because no rank waits for the maps: zeros add zeros. If the sums stay with their owners,
  /// other ranks' elements of them are undefined.
  void post_rows(const Event& after) {
    if (issued_at_once_) {
      for (const Turns& turns : row_turns_) exchange(turns, after);
      return;
    }
    const int64_t words = map_.count();
    const View maps(std::span<int64_t>(all_maps_), {words * ranks_});
    const auto mark = [this, own = maps.rows_slice(rank_ * words, words)](DeviceStream& stream) {
      Context context{.threads = 1, .stream = &stream};
      ops_.mark_rows(context, table(), map_);
      stream.copy(map_, own);
    };
    const Event marked = last_stage().run(mark, after);
    const Event gathered = all_ranks_->gather(maps, equal_pieces(maps.count(), ranks_), DType::i64, marked);
    rows_posted_ = last_stage().run([this](DeviceStream& stream) { exchange_rows(stream); }, gathered);
  }

  /// All maps are there. On the thread.
  void exchange_rows(DeviceStream& stream) {
    Context context{.threads = 1, .stream = &stream};
    const std::span<int64_t> touched = std::span(all_maps_).first(static_cast<size_t>(map_.count()));
    for (size_t i = touched.size(); i < all_maps_.size(); ++i) touched[i % touched.size()] |= all_maps_[i];
    stream.copy(View(touched, map_.shape()), map_);
    ops_.pack_rows(context, table(), map_);
    stream.finish();
    for (const Stripe& stripe : ownership_.packed(options_.rows, touched)) exchange(turns_of(stripe), {});
    ended_ = run_after_all([this](DeviceStream& of) {
      Context unpacking{.threads = 1, .stream = &of};
      ops_.unpack_rows(unpacking, table(), map_);
      of.finish();
      const int64_t begin = options_.rows.begin;
      if (options_.summed) options_.summed(unpacking, {begin, begin + table().count()});
      end_time_ = Clock::now();
    });
  }

  View table() const {
    const SparseRows& rows = options_.rows;
    return gradients_.rows_slice(rows.begin, rows.count * rows.width).reshape({rows.count, rows.width});
  }

  View gradients_;
  const int ranks_, rank_;
  Heartbeat* heartbeat_;
  Ops& ops_;
  const Ownership& ownership_;
  ReducerOptions options_;
  const bool issued_at_once_;  ///< to streams of a device (exchange/device_group.h), not to the thread
  std::vector<Stripe> dense_;
  std::vector<Turns> row_turns_;  ///< of all rows, if issued at once
  std::vector<Turns> turns_;      ///< of dense_, as the next one
  std::vector<Event> events_;     ///< of this step's sums
  Arena maps_;
  View map_;                       ///< where operators read it
  std::vector<int64_t> all_maps_;  ///< of all ranks; then the first one marks what any rank has touched
  std::shared_ptr<ProgressThread> thread_;
  std::deque<Stage> stages_;
  std::unique_ptr<StreamGroup> all_ranks_;  ///< for the maps

  bool busy_ = false, rows_begun_ = false;
  size_t posted_ = 0;  ///< of dense_
  Event rows_posted_, ended_;
  Clock::time_point start_time_, end_time_;
  uint64_t bytes_before_ = 0;
  ExchangeTimes times_;
};

Reducer::Reducer(View gradients, Communicator& group, Ops& ops, const Ownership& ownership, ReducerOptions options) {
  require(options.wire == DType::bf16 || options.wire == DType::f32, ErrorKind::config,
          "gradients cannot be sent as {}; set comm.wire to bf16 or f32", name_of(options.wire));
  if (group.size() > 1 && !gradients.empty())
    groups_ = std::make_unique<Groups>(gradients, group, ops, ownership, std::move(options));
}

Reducer::~Reducer() {
  // After a failure MPI may still write into buffers that it was given: they stay until the process ends. Groups of
  // devices see to that themselves.
  if (groups_ && !groups_->end() && !groups_->issued_at_once()) static_cast<void>(groups_.release());
}

void Reducer::begin() {
  if (groups_) groups_->begin();
}

void Reducer::ready(int64_t end) {
  if (groups_) groups_->ready(end);
}

void Reducer::wait_until_summed(int64_t end) {
  if (groups_) groups_->wait_until_summed(end);
}

void Reducer::finish() {
  if (groups_) groups_->finish();
}

const ExchangeTimes& Reducer::times() const { return groups_ ? groups_->times() : none_; }

std::shared_ptr<ProgressThread> Reducer::thread() const { return groups_ ? groups_->thread() : nullptr; }

int Reducer::peers(const ReducerOptions& options, int ranks, int rank) {
  if (ranks == 1) return 0;
  int peers = 0;
  for (const ReductionStage& stage : reduction_stages(plan_of(options), ranks, rank))
    peers += static_cast<int>(stage.group.size()) - 1;
  return options.by_library ? std::min(peers, kPeersOfLibrarySums) : peers;
}

size_t Reducer::buffer_bytes(const Ownership& ownership, const ReducerOptions& options) {
  const int ranks = ownership.ranks();
  if (ranks == 1) return 0;
  size_t bytes = (static_cast<size_t>(ranks) + 1) * map_bytes(options.rows);
  for (const ReductionStage& stage : reduction_stages(plan_of(options), ranks, 0))
    bytes += (options.devices ? device_group_bytes : group_bytes)(stage.route.ranks,
                                                                  {.chunks = chunks_of(ownership, stage, options)});
  return bytes;
}

}  // namespace trireme
