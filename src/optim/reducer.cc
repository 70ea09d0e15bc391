#include "optim/reducer.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "base/affinity.h"
#include "base/error.h"
#include "base/time.h"
#include "comm/heartbeat.h"
#include "optim/touched_rows.h"

namespace trireme {
namespace {

// The thread may share its core with a compute thread, so it sleeps between polls once nothing has arrived for a while.
constexpr auto kPatience = std::chrono::microseconds(30);
constexpr auto kPatienceAtTheEnd = std::chrono::milliseconds(2);  // backward has ended
// Each sleep is a small part of the time in which nothing moved, so that ranks that share cores poll less often while
// they wait long: at 1 ms, 16 ranks on 2 cores spent 4 % of their processor time on the exchange, with this rule half
// as much.
constexpr auto kShortestSleep = std::chrono::microseconds(20);
constexpr auto kLongestSleep = std::chrono::milliseconds(5);
constexpr int kSleepPart = 32;

/// The stripes before the sparse rows.
std::vector<Stripe> dense_stripes(const Ownership& ownership, const SparseRows& rows) {
  return rows.count > 0 ? ownership.before(rows.begin) : ownership.stripes();
}

ReductionPlan plan_of(const ReducerOptions& options) {
  return {options.wire, options.sums, options.one_host, options.chunk_bytes, options.hosts};
}

/// Most elements of a chunk per rank.
int64_t longest_chunk(const Ownership& ownership, const ReductionStage& stage) {
  int64_t longest = 0;
  for (const Stripe& stripe : ownership.stripes()) longest = std::max(longest, stripe.longest());
  return std::min(longest, ChunkPipeline::chunk_limit(stage.route, stage.chunk_bytes));
}

/// The turns of one stage for some stripes. stripe_of: by chunk, the number of its stripe among them.
struct Turns {
  std::vector<Stripe> stripes;
  std::vector<StripeChunk> chunks;
  std::vector<size_t> stripe_of;

  Turns(const ReductionStage& stage, const std::vector<Stripe>& of, int64_t limit) {
    std::vector<size_t> numbers;
    for (size_t i = 0; i < of.size(); ++i) {
      for (Stripe& turn : stage.turns(of[i])) stripes.push_back(std::move(turn));
      numbers.resize(stripes.size(), i);
    }
    chunks = chunks_of(stripes, limit);
    for (const StripeChunk& chunk : chunks)
      stripe_of.push_back(numbers[static_cast<size_t>(chunk.stripe - stripes.data())]);
  }
};

/// A stage's own group, for the exchange's thread. Collective.
std::unique_ptr<Communicator> group_of(const ReductionStage& stage, Communicator& all) {
  const auto place = std::ranges::find(stage.group, all.rank()) - stage.group.begin();
  auto group = all.split(stage.group.front(), static_cast<int>(place));
  group->report_to(all.heartbeat());
  return group;
}

size_t map_bytes(const SparseRows& rows) {
  return static_cast<size_t>(touched_rows::map_words(rows.count)) * sizeof(int64_t);
}

}  // namespace

/// The thread and its state.
class Reducer::Worker {
 public:
  Worker(View gradients, Communicator& group, Ops& ops, const Ownership& ownership, ReducerOptions options)
      : gradients_(gradients),
        group_(group),
        ops_(ops),
        stream_(ops.device().make_stream()),
        context_{.threads = 1, .stream = stream_.get()},
        ownership_(ownership),
        options_(std::move(options)),
        dense_(dense_stripes(ownership, options_.rows)),
        stages_(make_stages()),
        maps_(map_bytes(options_.rows), ops.device()),
        map_(maps_.take(DType::i64, Shape{touched_rows::map_words(options_.rows.count)})),
        own_map_(static_cast<size_t>(touched_rows::map_words(options_.rows.count))),
        peer_maps_(own_map_.size() * static_cast<size_t>(group.size())),
        thread_([this] { run(); }) {}

  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { assert(!thread_.joinable()); }

  /// Ends the thread; in the middle of a step the thread fails. False: it has failed, now or before.
  bool stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
    return !error_;
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    assert(!busy_);
    ready_end_ = 0;
    issued_.clear();
    summed_ = 0;
    busy_ = true;
    hurry_ = false;
    times_ = {};
    if (group_.heartbeat()) group_.heartbeat()->begin_chunks();
  }

  void ready(int64_t end) {
    {
      const std::lock_guard lock(mutex_);
      if (!busy_) return;
      assert(end >= ready_end_);
      issued_.push_back({end, ops_.device().stream().record()});
      take_over();
    }
    wake_.notify_all();
    if (group_.heartbeat()) group_.heartbeat()->move();
  }

  void finish() {
    ops_.device().stream().finish();
    const auto start = Clock::now();
    const Waiting waiting(group_.heartbeat(), "the sum of gradients",
                          static_cast<uint64_t>(size()) * size_of(options_.wire));
    std::unique_lock lock(mutex_);
    if (!error_ && !busy_) return;
    ready_end_ = size();
    issued_.clear();
    hurry_ = true;
    wake_.notify_all();
    done_.wait(lock, [&] { return !busy_ || error_; });
    if (error_) std::rethrow_exception(error_);
    times_.exposed_seconds = seconds_since(start);
  }

  void wait_until_summed(int64_t end) {
    size_t stripes = 0;  // that end there or before
    while (stripes < dense_.size() && dense_[stripes].ready_end <= end) ++stripes;
    std::unique_lock lock(mutex_);
    const auto is_done = [&] { return error_ || !busy_ || summed_ >= stripes; };
    if (!is_done()) {
      const Waiting waiting(group_.heartbeat(), "the sum of gradients", 0);
      done_.wait(lock, is_done);
    }
    if (error_) std::rethrow_exception(error_);
  }

  const ExchangeTimes& times() const { return times_; }

 private:
  /// A time without progress, and what was ready when it began.
  struct Quiet {
    Clock::time_point since = Clock::now();
    int64_t ready_end = 0;
  };

  /// Elements that are complete after the event.
  struct Issued {
    int64_t end = 0;
    Event event;
  };

  int64_t size() const { return gradients_.count(); }

  /// Under the mutex: marks what the device has completed as ready.
  void take_over() {
    for (; !issued_.empty() && issued_.front().event.reached(); issued_.pop_front()) ready_end_ = issued_.front().end;
    some_issued_ = !issued_.empty();
  }

  /// Returns once elements [0, end) of a step are complete, or the thread must end.
  void wait_until_complete(int64_t end) {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stop_ || (busy_ && (ready_end_ >= end || !issued_.empty())); });
      if (stop_ || ready_end_ >= end) return;
      const Event next = issued_.front().event;
      lock.unlock();
      next.wait();
      lock.lock();
      take_over();
    }
  }

  void run() {
    try {
      const CpuAccount::Thread counted(group_.heartbeat() ? &group_.heartbeat()->cpu() : nullptr, ThreadKind::exchange);
      if (!options_.cpus.empty()) pin_this_thread(options_.cpus);
      while (wait_for_step()) run_step();
    } catch (...) {
      for (Stage& stage : stages_) stage.pipeline.abandon();
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      done_.notify_all();
    }
  }

  /// One exchange of the plan.
  struct Stage {
    Stage(const ReductionStage& of, Worker& worker, bool alone)
        : definition(of),
          limit(longest_chunk(worker.ownership_, of)),
          own_group(alone ? nullptr : group_of(of, worker.group_)),
          pipeline(worker.gradients_, own_group ? *own_group : worker.group_, worker.ops_, worker.context_, of.route,
                   limit),
          dense(of, worker.dense_, limit) {}
    const ReductionStage definition;
    const int64_t limit;
    const std::unique_ptr<Communicator> own_group;  ///< nullptr: the only stage uses the complete group
    ChunkPipeline pipeline;
    const Turns dense;
  };

  /// A running stage.
  struct StageRun {
    ChunkPipeline& pipeline;
    const Turns& turns;
    size_t next = 0, ended = 0;  ///< chunks
    /// Stripes before this one have ended.
    size_t under_way() const {
      return ended < turns.chunks.size() ? turns.stripe_of[ended] : std::numeric_limits<size_t>::max();
    }
    bool done() const { return ended == turns.chunks.size(); }
  };

  std::deque<Stage> make_stages() {
    std::deque<Stage> stages;
    const std::vector<ReductionStage> plan = reduction_stages(plan_of(options_), group_.size(), group_.rank());
    for (const ReductionStage& stage : plan) stages.emplace_back(stage, *this, plan.size() == 1);
    return stages;
  }

  uint64_t bytes_sent() const {
    uint64_t bytes = 0;
    for (const Stage& stage : stages_) bytes += stage.pipeline.bytes_sent();
    return bytes;
  }

  /// False if the thread must end.
  bool wait_for_step() {
    wait_until_complete(dense_.empty() ? size() : dense_.front().ready_end);
    return !stop_;
  }

  void run_step() {
    const auto start = Clock::now();
    const uint64_t bytes_before = bytes_sent();
    std::vector<StageRun> runs;
    for (Stage& stage : stages_) runs.push_back({stage.pipeline, stage.dense});
    run_stages(runs, [&] { tell_summed(runs.back().under_way()); });
    if (options_.rows.count > 0) run_rows();
    const std::lock_guard lock(mutex_);
    times_.total_seconds = seconds_since(start);
    times_.wire_bytes = bytes_sent() - bytes_before;
    busy_ = false;
    done_.notify_all();
  }

  /// The first stage starts a stripe once its elements are complete, each other one once the stage before has ended it.
  void run_stages(std::vector<StageRun>& stages, const std::function<void()>& moved_on) {
    const auto all = [&](bool (*holds)(const StageRun&)) { return std::ranges::all_of(stages, holds); };
    Quiet quiet;
    while (!all([](const StageRun& stage) { return stage.done(); })) {
      if (some_issued_) {
        const std::lock_guard lock(mutex_);
        take_over();
      }
      quiet.ready_end = ready_end_;
      bool moved = false;
      for (size_t i = 0; i < stages.size(); ++i) moved = advance(stages[i], i == 0 ? nullptr : &stages[i - 1]) || moved;
      if (moved) {
        moved_on();
        quiet = {};
      } else if (all([](const StageRun& stage) { return stage.pipeline.empty(); })) {
        wait_until_ready(stages.front().turns.chunks[stages.front().next].stripe->ready_end);
      } else {
        rest(quiet);
      }
    }
    moved_on();
  }

  /// True: progress.
  bool advance(StageRun& stage, const StageRun* before) {
    bool moved = false;
    for (; stage.next < stage.turns.chunks.size() && !stage.pipeline.full(); ++stage.next) {
      const StripeChunk& chunk = stage.turns.chunks[stage.next];
      if (before ? stage.turns.stripe_of[stage.next] >= before->under_way() : chunk.stripe->ready_end > ready_end_)
        break;
      stage.pipeline.start(chunk);
      moved = true;
    }
    const size_t done = stage.pipeline.chunks_done();
    moved = stage.pipeline.advance() || moved;
    const size_t ended = stage.pipeline.chunks_done() - done;
    stage.ended += ended;
    if (moved && group_.heartbeat()) group_.heartbeat()->chunks_done(ended);
    return moved;
  }

  /// All stripes before this one are summed.
  void tell_summed(size_t under_way) {
    const size_t end = std::min(under_way, dense_.size());
    if (end == summed_) return;
    if (options_.summed) {
      for (size_t i = summed_; i < end; ++i) options_.summed(context_, dense_[i].range());
    }
    const std::lock_guard lock(mutex_);
    summed_ = end;
    done_.notify_all();
  }

  /// Packs and exchanges the rows that any rank has touched. If the sums stay with their owners, other ranks' elements
  /// of them are undefined.
  void run_rows() {
    const SparseRows& rows = options_.rows;
    wait_until_ready(size());
    const View table = gradients_.rows_slice(rows.begin, rows.count * rows.width).reshape({rows.count, rows.width});
    agree_on_rows(table);
    ops_.pack_rows(context_, table, map_);
    stream_->finish();
    const std::vector<Stripe> packed = ownership_.packed(rows, own_map_);
    std::deque<Turns> turns;
    std::vector<StageRun> runs;
    for (Stage& stage : stages_)
      runs.push_back({stage.pipeline, turns.emplace_back(stage.definition, packed, stage.limit)});
    run_stages(runs, [] {});
    ops_.unpack_rows(context_, table, map_);
    stream_->finish();
    if (options_.summed) options_.summed(context_, {rows.begin, rows.begin + table.count()});
  }

  /// own_map_ and map_ = rows that any rank has touched.
  void agree_on_rows(ConstView table) {
    const View own(std::span<int64_t>(own_map_), map_.shape());
    ops_.mark_rows(context_, table, map_);
    stream_->copy(map_, own);
    Handle gathered = group_.all_gather(own, View(std::span(peer_maps_), {own.count() * group_.size()}));
    for (Quiet quiet{.ready_end = ready_end_}; !gathered.test();) rest(quiet);
    for (size_t i = 0; i < peer_maps_.size(); ++i) own_map_[i % own_map_.size()] |= peer_maps_[i];
    stream_->copy(own, map_);
  }

  /// Without progress: polls again at once, or after a while.
  void rest(const Quiet& quiet) {
    const Clock::duration patience = hurry_ ? Clock::duration(kPatienceAtTheEnd) : Clock::duration(kPatience);
    const Clock::duration idle = Clock::now() - quiet.since;
    if (idle < patience) {
      std::this_thread::yield();
    } else {
      const Clock::duration sleep = std::clamp<Clock::duration>(idle / kSleepPart, kShortestSleep, kLongestSleep);
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, sleep, [&] { return stop_ || ready_end_ != quiet.ready_end; });
    }
    check_stop();
  }

  void wait_until_ready(int64_t end) {
    wait_until_complete(end);
    check_stop();
  }

  void check_stop() const {
    if (stop_) fail(ErrorKind::comm, "the gradient exchange was aborted in the middle of a step");
  }

  View gradients_;
  Communicator& group_;
  Ops& ops_;
  std::unique_ptr<DeviceStream> stream_;
  Context context_;
  const Ownership& ownership_;
  ReducerOptions options_;
  std::vector<Stripe> dense_;
  std::deque<Stage> stages_;
  Arena maps_;
  View map_;  ///< where operators read it
  std::vector<int64_t> own_map_, peer_maps_;
  ExchangeTimes times_;

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::atomic<int64_t> ready_end_ = 0;                                    // changed under the mutex, read without it
  std::atomic<bool> hurry_ = false, stop_ = false, some_issued_ = false;  // likewise
  std::deque<Issued> issued_;                                             // not complete yet, in ascending order
  bool busy_ = false;
  size_t summed_ = 0;  ///< of dense_, as reported; only the thread changes it
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses all of the above
};

Reducer::Reducer(View gradients, Communicator& group, Ops& ops, const Ownership& ownership, ReducerOptions options) {
  require(options.wire == DType::bf16 || options.wire == DType::f32, ErrorKind::config,
          "gradients cannot be sent as {}; set comm.wire to bf16 or f32", name_of(options.wire));
  if (group.size() > 1 && !gradients.empty()) {
    worker_ = std::make_unique<Worker>(gradients, group, ops, ownership, std::move(options));
  }
}

Reducer::~Reducer() {
  // After a failure MPI may still write into buffers that it was given: they stay until the process ends.
  if (worker_ && !worker_->stop()) static_cast<void>(worker_.release());
}

void Reducer::begin() {
  if (worker_) worker_->begin();
}

void Reducer::ready(int64_t end) {
  if (worker_) worker_->ready(end);
}

void Reducer::wait_until_summed(int64_t end) {
  if (worker_) worker_->wait_until_summed(end);
}

void Reducer::finish() {
  if (worker_) worker_->finish();
}

const ExchangeTimes& Reducer::times() const { return worker_ ? worker_->times() : none_; }

size_t Reducer::buffer_bytes(const Ownership& ownership, const ReducerOptions& options) {
  const int ranks = ownership.ranks();
  if (ranks == 1) return 0;
  size_t bytes = (static_cast<size_t>(ranks) + 2) * map_bytes(options.rows);
  for (const ReductionStage& stage : reduction_stages(plan_of(options), ranks, 0))
    bytes += ChunkPipeline::bytes_for(stage.route, longest_chunk(ownership, stage));
  return bytes;
}

}  // namespace trireme
