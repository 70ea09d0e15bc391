#include "exchange/message_group.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <limits>
#include <utility>

#include "base/error.h"
#include "comm/heartbeat.h"
#include "exchange/device_group.h"

namespace trireme {
namespace {

// Chunks have separate tags, but no group uses both.
enum Tag : int { kContribution = 1, kSum = 2, kPiece = 3, kMessage = 4 };

constexpr int kGathersUnderWay = 4;  // hides one's round trip behind others

/// Messages that are under way together.
class Messages {
 public:
  void add(Handle handle) { handles_.push_back(std::move(handle)); }
  /// True: one more is done.
  bool advance() {
    const size_t before = done_;
    while (done_ < handles_.size() && handles_[done_].test()) ++done_;
    return done_ > before;
  }
  bool done() const { return done_ == handles_.size(); }
  void abandon() {
    for (Handle& handle : handles_) handle.abandon();
  }

 private:
  std::vector<Handle> handles_;
  size_t done_ = 0;
};

View piece_of(View x, const ElementRange& piece) { return x.rows_slice(piece.begin, piece.count()); }

using Operation = ProgressThread::Operation;
using Progress = ProgressThread::Progress;
using Turn = ProgressThread::Turn;

/// What the operations of a group use, on its thread.
class GroupState {
 public:
  GroupState(Communicator& axis, Ops& operators, const GroupOptions& options)
      : group(axis.split(options.color, options.key.value_or(axis.rank()))),
        ops(operators),
        stream(ops.device().make_stream()),
        context{.threads = 1, .stream = stream.get()},
        exchange(options.chunks ? options.chunks->route.exchange : Exchange::reduce_and_share),
        wire(options.chunks ? options.chunks->route.wire : DType::f32),
        chunk_limit(options.chunks ? options.chunks->limit : 0) {
    group->report_to(axis.heartbeat());
    if (options.chunks) chunks.emplace(*group, ops, context, options.chunks->route, chunk_limit);
    if (options.sums.empty()) return;
    arena = Arena(bytes_of(group->size(), options.sums), ops.device());
    for (const GroupOptions::Sums& of : options.sums)
      contributions.push_back(arena.take(of.dtype, {group->size() * of.longest_piece}));
  }
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;

  static size_t bytes_of(int ranks, const std::vector<GroupOptions::Sums>& sums) {
    Arena measure;
    for (const GroupOptions::Sums& of : sums) measure.take(of.dtype, {ranks * of.longest_piece});
    return measure.peak();
  }

  int rank() const { return group->rank(); }
  int size() const { return group->size(); }

  /// Memory for everyone's contributions to n elements: [ranks, n].
  View room_for(DType dtype, int64_t n) const {
    const auto buffer = std::ranges::find_if(
        contributions, [&](const View& of) { return of.dtype() == dtype && of.count() >= size() * n; });
    assert(buffer != contributions.end());
    return buffer->rows_slice(0, size() * n).reshape({size(), n});
  }

  /// In an order that spreads the load: every rank begins with the next one.
  template <class Do>
  void for_peers(Do action) const {
    for (int i = 1; i < size(); ++i) action((rank() + i) % size());
  }

  // Sends nothing without elements.
  void send(Messages& messages, ConstView x, int peer, int tag) {
    if (x.count() == 0) return;
    messages.add(group->send(x, peer, tag));
    bytes_sent += x.bytes();
  }
  void receive(Messages& messages, View x, int peer, int tag) const {
    if (x.count() > 0) messages.add(group->receive(x, peer, tag));
  }

  /// Own pieces go to all, theirs arrive.
  void send_and_receive_pieces(Messages& messages, View x, const std::vector<ElementRange>& pieces, int tag) {
    const auto of = [&](int r) { return piece_of(x, pieces[static_cast<size_t>(r)]); };
    for_peers([&](int r) { receive(messages, of(r), r, tag); });
    for_peers([&](int r) { send(messages, of(rank()), r, tag); });
  }

  const std::unique_ptr<Communicator> group;
  Ops& ops;
  const std::unique_ptr<DeviceStream> stream;
  Context context;
  const Exchange exchange;  ///< of chunks, as the next two
  const DType wire;
  const int64_t chunk_limit;  ///< elements per rank
  std::optional<ChunkPipeline> chunks;
  Arena arena;
  std::vector<View> contributions;
  std::atomic<uint64_t> bytes_sent = 0;  ///< without chunks

  bool summing = false;       ///< uses `contributions`
  int gathers_under_way = 0;  ///< without chunks
  uint64_t chunks_turn = 0;   ///< the last one in which chunks moved
  size_t chunks_wanted = 0;   ///< of the calls that have begun
};

/// Every member adds up its piece and, if all get the sum, sends it to them.
class DirectSum final : public Operation {
 public:
  DirectSum(GroupState& state, View x, Pieces pieces, View own, bool shares)
      : state_(state), x_(x), pieces_(pieces.begin(), pieces.end()), own_(own), shares_(shares) {}

  bool begin() override {
    if (state_.summing) return false;
    state_.summing = true;
    parts_ = state_.room_for(x_.dtype(), own_.count());
    const auto part = [&](int r) { return parts_.rows_slice(r, 1); };
    state_.for_peers([&](int r) { state_.receive(messages_, part(r), r, kContribution); });
    state_.for_peers(
        [&](int r) { state_.send(messages_, piece_of(x_, pieces_[static_cast<size_t>(r)]), r, kContribution); });
    if (own_.count() > 0)
      state_.ops.cast(state_.context, piece_of(x_, pieces_[static_cast<size_t>(state_.rank())]), part(state_.rank()));
    return true;
  }

  Progress advance(const Turn&) override {
    bool moved = messages_.advance();
    if (messages_.done() && !summed_) {
      moved = summed_ = true;
      if (own_.count() > 0) state_.ops.sum_parts(state_.context, parts_, own_);
      state_.stream->finish();
      messages_ = {};
      if (shares_) state_.send_and_receive_pieces(messages_, x_, pieces_, kSum);
    }
    if (!messages_.done()) return moved ? Progress::some : Progress::none;
    state_.summing = false;
    return Progress::done;
  }

  void abandon() override { messages_.abandon(); }

 private:
  GroupState& state_;
  View x_;
  std::vector<ElementRange> pieces_;
  View own_, parts_;
  bool shares_, summed_ = false;
  Messages messages_;
};

class DirectGather final : public Operation {
 public:
  DirectGather(GroupState& state, View x, Pieces pieces)
      : state_(state), x_(x), pieces_(pieces.begin(), pieces.end()) {}

  bool begin() override {
    if (state_.gathers_under_way == kGathersUnderWay) return false;
    ++state_.gathers_under_way;
    state_.send_and_receive_pieces(messages_, x_, pieces_, kPiece);
    return true;
  }

  Progress advance(const Turn&) override {
    const bool moved = messages_.advance();
    if (!messages_.done()) return moved ? Progress::some : Progress::none;
    --state_.gathers_under_way;
    return Progress::done;
  }

  void abandon() override { messages_.abandon(); }

 private:
  GroupState& state_;
  View x_;
  std::vector<ElementRange> pieces_;
  Messages messages_;
};

/// A sum or gather in chunks.
class ChunkedExchange final : public Operation {
 public:
  ChunkedExchange(GroupState& state, View x, Pieces pieces)
      : state_(state), pieces_(pieces.begin(), pieces.end()), next_{x, pieces_, 0, state.chunk_limit} {}

  /// Once the calls before have started all their chunks.
  bool begin() override {
    if (state_.chunks->full() || state_.chunks->chunks_started() < state_.chunks_wanted) return false;
    const int64_t count = (longest_of(pieces_) + next_.limit - 1) / next_.limit;
    last_ = state_.chunks_wanted += static_cast<size_t>(count);
    return true;
  }

  Progress advance(const Turn& turn) override {
    bool moved = false;
    for (; state_.chunks->chunks_started() < last_ && !state_.chunks->full(); next_.first += next_.limit) {
      state_.chunks->start(next_);
      moved = true;
    }
    if (std::exchange(state_.chunks_turn, turn.number) != turn.number) moved = advance_all() || moved;
    if (state_.chunks->chunks_done() >= last_) return Progress::done;
    return moved ? Progress::some : Progress::none;
  }

  void abandon() override { state_.chunks->abandon(); }

 private:
  bool advance_all() {
    const size_t before = state_.chunks->chunks_done();
    const bool moved = state_.chunks->advance();
    if (Heartbeat* heartbeat = state_.group->heartbeat(); heartbeat && moved)
      heartbeat->chunks_done(state_.chunks->chunks_done() - before);
    return moved;
  }

  GroupState& state_;
  std::vector<ElementRange> pieces_;
  Chunk next_;
  size_t last_ = std::numeric_limits<size_t>::max();  ///< chunks that are done when this is
};

class Message final : public Operation {
 public:
  /// start: issues it.
  explicit Message(std::function<Handle()> start) : start_(std::move(start)) {}

  bool begin() override {
    handle_ = start_();
    return true;
  }
  Progress advance(const Turn&) override { return handle_.test() ? Progress::done : Progress::none; }
  void abandon() override { handle_.abandon(); }

 private:
  std::function<Handle()> start_;
  Handle handle_;
};

/// Work between exchanges.
class Run final : public Operation {
 public:
  Run(GroupState& state, std::function<void(DeviceStream&)> work) : state_(state), work_(std::move(work)) {}
  Progress advance(const Turn& turn) override {
    if (!turn.first) return Progress::none;
    work_(*state_.stream);
    state_.stream->finish();
    return Progress::done;
  }

 private:
  GroupState& state_;
  std::function<void(DeviceStream&)> work_;
};

class MessageGroup final : public StreamGroup {
 public:
  MessageGroup(Communicator& axis, Ops& ops, GroupOptions options)
      : state_(std::make_unique<GroupState>(axis, ops, options)),
        thread_(options.thread
                    ? std::move(options.thread)
                    : std::make_shared<ProgressThread>(axis.heartbeat(), std::move(options.cpus), options.pace)),
        sums_(thread_->make_lane()),
        sends_(thread_->make_lane()),
        receives_(thread_->make_lane()) {}
  MessageGroup(const MessageGroup&) = delete;
  MessageGroup& operator=(const MessageGroup&) = delete;
  // After a failure MPI may still write into buffers that it was given: they stay until the process ends.
  ~MessageGroup() override {
    if (!MessageGroup::end()) static_cast<void>(state_.release());
  }

  int rank() const override { return state_->rank(); }
  int size() const override { return state_->size(); }
  Heartbeat* heartbeat() const override { return state_->group->heartbeat(); }
  uint64_t bytes_sent() const override {
    return state_->bytes_sent + (state_->chunks ? state_->chunks->bytes_sent() : 0);
  }
  bool end() noexcept override { return thread_->end(); }

  Event sum(View x, Pieces pieces, const RankOrderSum& definition, Event after) override {
    check(pieces);
    if (in_chunks(x, Exchange::reduce_and_share)) return post_chunks(x, pieces, definition.wire, std::move(after));
    assert(x.dtype() == definition.wire);
    return post(sums_, std::make_unique<DirectSum>(*state_, x, pieces, piece_of(x, own(pieces)), true),
                std::move(after));
  }

  Event scatter_sum(View x, Pieces pieces, View sum, const RankOrderSum& definition, Event after) override {
    check(pieces);
    if (in_chunks(x, Exchange::reduce)) {
      assert(sum.data() == piece_of(x, own(pieces)).data());
      return post_chunks(x, pieces, definition.wire, std::move(after));
    }
    assert(x.dtype() == definition.wire && sum.count() == own(pieces).count());
    return post(sums_, std::make_unique<DirectSum>(*state_, x, pieces, sum, false), std::move(after));
  }

  Event gather(View x, Pieces pieces, DType wire, Event after) override {
    check(pieces);
    if (in_chunks(x, Exchange::share)) return post_chunks(x, pieces, wire, std::move(after));
    assert(x.dtype() == wire);
    return post(sums_, std::make_unique<DirectGather>(*state_, x, pieces), std::move(after));
  }

  Event send(ConstView x, int to, Event after) override {
    return post(sends_, std::make_unique<Message>([state = state_.get(), x, to] {
                  state->bytes_sent += x.bytes();
                  return state->group->send(x, to, kMessage);
                }),
                std::move(after));
  }

  Event receive(View x, int from, Event after) override {
    return post(receives_, std::make_unique<Message>([state = state_.get(), x, from] {
                  return state->group->receive(x, from, kMessage);
                }),
                std::move(after));
  }

  Event run(std::function<void(DeviceStream&)> work, Event after) override {
    return post(sums_, std::make_unique<Run>(*state_, std::move(work)), std::move(after));
  }

 private:
  const ElementRange& own(Pieces pieces) const { return pieces[static_cast<size_t>(rank())]; }
  void check([[maybe_unused]] Pieces pieces) const { assert(static_cast<int>(pieces.size()) == size()); }
  bool in_chunks(View x, Exchange exchange) const {
    return state_->chunks && state_->exchange == exchange && x.dtype() == DType::f32;
  }
  Event post_chunks(View x, Pieces pieces, [[maybe_unused]] DType wire, Event after) {
    assert(wire == state_->wire);
    return post(sums_, std::make_unique<ChunkedExchange>(*state_, x, pieces), std::move(after));
  }
  Event post(ProgressThread::Lane lane, std::unique_ptr<Operation> operation, Event after) {
    return thread_->post(lane, std::move(operation), std::move(after));
  }

  std::unique_ptr<GroupState> state_;
  std::shared_ptr<ProgressThread> thread_;
  ProgressThread::Lane sums_, sends_, receives_;
};

}  // namespace

std::unique_ptr<StreamGroup> make_stream_group(Communicator& axis, Ops& ops, GroupOptions options) {
  if (ops.device().network()) return make_device_group(axis, ops, options);
  require(!options.chunks || !options.chunks->by_library, ErrorKind::config,
          "sums by a library need devices that it connects");
  return std::make_unique<MessageGroup>(axis, ops, std::move(options));
}

size_t group_bytes(int ranks, const GroupOptions& options) {
  const size_t chunks = options.chunks ? ChunkPipeline::bytes_for(options.chunks->route, options.chunks->limit) : 0;
  return chunks + GroupState::bytes_of(ranks, options.sums);
}

std::vector<ElementRange> equal_pieces(int64_t elements, int ranks) {
  std::vector<ElementRange> pieces;
  for (int64_t r = 0; r < ranks; ++r) pieces.push_back({elements * r / ranks, elements * (r + 1) / ranks});
  return pieces;
}

}  // namespace trireme
