#include "exchange/device_group.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "comm/heartbeat.h"

namespace trireme {
namespace {

using Part = DeviceLinks::Part;

// A rank that waits for a device looks this often whether it is done, and whether the library has failed.
constexpr std::chrono::microseconds kLook{20};
constexpr std::chrono::milliseconds kCheck{20};
constexpr size_t kMostBufferBytes = 64 << 20;  ///< of chunks
constexpr std::chrono::seconds kEnd{2};        ///< for what a group has issued, when it ends

View piece_of(View x, const ElementRange& piece) { return x.rows_slice(piece.begin, piece.count()); }

/// Connections that fail together, and with them all of the network: what waits for them is given up at once.
class Connections {
 public:
  explicit Connections(DeviceNetwork& network) : network_(network) {}
  void add(const std::unique_ptr<DeviceLinks>& links) {
    if (links) all_.push_back(links.get());
  }
  void check() {
    for (DeviceLinks* links : all_) {
      try {
        links->check();
      } catch (...) {
        failed_ = true;
        network_.abort();
        throw;
      }
    }
  }
  /// Whether none has failed or was given up.
  bool work() noexcept {
    try {
      check();
    } catch (...) {
    }
    return !failed_;
  }
  void forget() { all_.clear(); }

 private:
  DeviceNetwork& network_;
  std::vector<DeviceLinks*> all_;
  bool failed_ = false;
};

/// An event of the device, whose wait ends when the library fails.
class Watched final : public Event::State {
 public:
  Watched(Event event, std::shared_ptr<Connections> connections)
      : event_(std::move(event)), connections_(std::move(connections)) {}
  bool reached() override { return event_.reached(); }
  void wait() override {
    auto checked = Clock::now();
    while (!event_.reached()) {
      if (const auto now = Clock::now(); now - checked > kCheck) {
        connections_->check();
        checked = now;
      }
      std::this_thread::sleep_for(kLook);
    }
    connections_->check();  // what an aborted message leaves counts as done
    event_.wait();
  }
  void hold(DeviceStream& stream) override { event_.hold(stream); }

 private:
  Event event_;
  std::shared_ptr<Connections> connections_;
};

/// A stream with the connection that it uses.
struct Lane {
  std::unique_ptr<DeviceStream> stream;
  std::unique_ptr<DeviceLinks> links;
};

/// Chunks that leave and that arrive, a row of `limit` elements for each rank; of a library's sum only one
/// arrives.
struct Rows {
  Rows(Arena& arena, int ranks, const GroupOptions::Chunks& chunks)
      : out(arena.take(chunks.route.wire, {ranks, chunks.limit})),
        in(arena.take(chunks.route.wire, {chunks.by_library ? 1 : ranks, chunks.limit})) {}
  View out, in;
};

/// The first message of a pair of ranks connects them, and waits for that: it is sent when the group is made. What
/// leaves and what arrives, one for each rank.
View take_greetings(Arena& arena, int ranks) { return arena.take(DType::f32, {2, ranks}); }

size_t bytes_of(int ranks, const GroupOptions& options) {
  Arena measure;
  take_greetings(measure, ranks);
  if (options.chunks) (void)Rows(measure, ranks, *options.chunks);
  for (const GroupOptions::Sums& of : options.sums) measure.take(of.dtype, {ranks * of.longest_piece});
  return measure.peak();
}

/// Only messages between neighbours.
bool is_chain(const GroupOptions& options) { return options.from || options.to; }

class DeviceGroup final : public StreamGroup {
 public:
  DeviceGroup(Communicator& axis, Ops& ops, const GroupOptions& options)
      : group_(axis.split(options.color, options.key.value_or(axis.rank()))),
        ops_(ops),
        network_(*ops.device().network()),
        wire_(options.chunks ? options.chunks->route.wire : DType::f32),
        exchange_(options.chunks ? options.chunks->route.exchange : Exchange::reduce_and_share),
        limit_(options.chunks ? options.chunks->limit : 0),
        by_library_(options.chunks && options.chunks->by_library),
        arena_(bytes_of(group_->size(), options), ops.device()),
        greetings_(take_greetings(arena_, group_->size())) {
    group_->report_to(axis.heartbeat());
    if (options.chunks) rows_.emplace(arena_, size(), *options.chunks);
    for (const GroupOptions::Sums& of : options.sums)
      contributions_.push_back(arena_.take(of.dtype, {size() * of.longest_piece}));
    assert(axis.devices() || size() == 1);
    // Few streams: those of a GPU share queues, where one that waits may delay another.
    const auto open = [&](Lane& lane) { lane.stream = ops.device().make_stream(); };
    if (is_chain(options)) {
      if (options.to) open(sends_);
      if (options.from) open(receives_);
      assert(options.color == 0);
      connect_neighbours(*axis.devices(), options);
    } else {
      open(sums_);
      connect_all(axis.devices().get(), options.color);
    }
    for (const Lane* lane : {&sums_, &sends_, &receives_}) connections_->add(lane->links);
  }
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;
  // What has failed, or was not done, may still use the memory: it stays until the process ends.
  ~DeviceGroup() override {
    if (DeviceGroup::end()) return;
    static_cast<void>(new Arena(std::move(arena_)));
    for (Lane* lane : {&sums_, &sends_, &receives_}) static_cast<void>(lane->stream.release());
  }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  Heartbeat* heartbeat() const override { return group_->heartbeat(); }
  uint64_t bytes_sent() const override { return bytes_sent_; }

  void wait(const Event& event, const char* what, uint64_t bytes) const override {
    connections_->check();
    DeviceStream& compute = ops_.device().stream();
    if (!event.reached()) network_.await({compute.record(), event, what, bytes});
    compute.wait(event);
  }

  bool end() noexcept override {
    if (ended_) return *ended_;
    bool works = true;  // the device
    const auto done = [&] {
      try {
        return std::ranges::all_of(last_, [](const Event& e) { return e.reached(); });
      } catch (...) {  // the error of the work before, which its own caller has got
        works = false;
        return false;
      }
    };
    const auto until = [&](const auto& otherwise) {
      const auto start = Clock::now();
      while (!otherwise() && !done() && works && Clock::now() - start < kEnd) std::this_thread::sleep_for(kLook);
    };
    until([&] { return !connections_->work(); });
    ended_ = connections_->work() && done();
    if (!*ended_) {
      network_.abort();
      until([] { return false; });  // what follows in the streams runs, too
    }
    connections_->forget();
    return *ended_;
  }

  Event sum(View x, Pieces pieces, const RankOrderSum& definition, Event after) override {
    begin(sums_, after);
    if (in_chunks(x, Exchange::reduce_and_share)) {
      for_chunks(x, pieces, definition.wire, [&](const Chunk& chunk) {
        if (by_library_) return sum_by_library(chunk);
        add_up(chunk);
        share(chunk);
      });
    } else {
      assert(x.dtype() == definition.wire);
      add_up_directly(x, pieces, piece_of(x, own(pieces)));
      share_directly(x, pieces);
    }
    return finish(sums_, last_[0]);
  }

  Event scatter_sum(View x, Pieces pieces, View sum, const RankOrderSum& definition, Event after) override {
    begin(sums_, after);
    if (in_chunks(x, Exchange::reduce)) {
      assert(sum.data() == piece_of(x, own(pieces)).data());
      for_chunks(x, pieces, definition.wire,
                 [&](const Chunk& chunk) { by_library_ ? scatter_sum_by_library(chunk) : add_up(chunk); });
    } else {
      assert(x.dtype() == definition.wire && sum.count() == own(pieces).count());
      add_up_directly(x, pieces, sum);
    }
    return finish(sums_, last_[0]);
  }

  Event gather(View x, Pieces pieces, DType wire, Event after) override {
    begin(sums_, after);
    if (in_chunks(x, Exchange::share)) {
      for_chunks(x, pieces, wire, [&](const Chunk& chunk) {
        if (wire_ != DType::f32 && chunk.length(rank()) > 0)
          ops_.wire_cast(context_, of(chunk, rank()), row(rows_->out, rank(), chunk.length(rank())));
        share(chunk);
      });
    } else {
      assert(x.dtype() == wire);
      share_directly(x, pieces);
    }
    return finish(sums_, last_[0]);
  }

  Event send(ConstView x, [[maybe_unused]] int to, Event after) override {
    assert(to == to_ && x.count() > 0);
    begin(sends_, after);
    bytes_sent_ += x.bytes();
    const std::array parts{Part{.peer = 1, .out = x}};
    issue(sends_, parts);
    return finish(sends_, last_[1]);
  }

  Event receive(View x, [[maybe_unused]] int from, Event after) override {
    assert(from == from_ && x.count() > 0);
    begin(receives_, after);
    const std::array parts{Part{.peer = 0, .in = x}};
    issue(receives_, parts);
    return finish(receives_, last_[2]);
  }

  Event run(std::function<void(DeviceStream&)> work, Event after) override {
    begin(sums_, after);
    work(*sums_.stream);
    return finish(sums_, last_[0]);
  }

 private:
  const ElementRange& own(Pieces pieces) const { return pieces[static_cast<size_t>(rank())]; }
  bool in_chunks(View x, Exchange exchange) const { return rows_ && exchange_ == exchange && x.dtype() == DType::f32; }

  /// Groups of one rank take part: others of the axis may be larger.
  void connect_all(DeviceLinks* axis, int color) {
    if (axis) sums_.links = axis->split(size() > 1 ? std::optional(color) : std::nullopt, rank(), LinkUse::tensors);
    if (size() == 1) return;
    if (by_library_) return greet_by_library();
    issue_between([&](int r) { return greeting(0, r); }, [&](int r) { return greeting(1, r); });
    bytes_sent_ = 0;
  }

  /// Sends no messages but sums, which use separate connections.
  void greet_by_library() {
    if (exchange_ == Exchange::reduce)
      sums_.links->collective(*sums_.stream, DeviceCollective::reduce_scatter, greetings_.first_as({size(), 1}),
                              greeting(1, 0), 0);
    else
      sums_.links->collective(*sums_.stream, DeviceCollective::all_reduce, greeting(0, 0), greeting(0, 0), 0);
  }

  /// A connection from each rank to the one that it sends to, named after the sender. A rank is in two pairs, and in
  /// one of each split: even senders and odd ones take turns, and the last one of an odd ring.
  void connect_neighbours(DeviceLinks& axis, const GroupOptions& options) {
    from_ = options.from.value_or(-1), to_ = options.to.value_or(-1);
    const int last = size() - 1, turns = size() % 2 == 0 ? 2 : 3;
    const auto turn_of = [&](int sender) { return turns == 3 && sender == last ? 2 : sender % 2; };
    for (int turn = 0; turn < turns; ++turn) {
      const bool sends = options.to && turn_of(rank()) == turn, receives = options.from && turn_of(from_) == turn;
      assert(!(sends && receives));
      const std::optional<int> sender = sends ? std::optional(rank()) : receives ? options.from : std::nullopt;
      std::unique_ptr<DeviceLinks> pair = axis.split(sender, sends ? 0 : 1, LinkUse::tensors);
      if (sends) {
        sends_.links = std::move(pair);
        issue(sends_, std::array{Part{.peer = 1, .out = greeting(0, 0)}});
      } else if (receives) {
        receives_.links = std::move(pair);
        issue(receives_, std::array{Part{.peer = 0, .in = greeting(1, 0)}});
      }
    }
  }
  View greeting(int row, int64_t r) const { return greetings_.rows_slice(row, 1).reshape({size()}).rows_slice(r, 1); }

  void begin(Lane& lane, const Event& after) {
    assert(!ended_ && lane.stream);
    if (lane.links) connections_->check();
    lane.stream->wait(after);
    context_.stream = lane.stream.get();
  }
  Event finish(Lane& lane, Event& last) {
    last = lane.stream->record();
    return Event(std::make_shared<Watched>(last, connections_));
  }
  static void issue(Lane& lane, std::span<const Part> parts) {
    if (!parts.empty()) lane.links->exchange(*lane.stream, parts);
  }

  /// Sends nothing without elements.
  void issue_between(const auto& out, const auto& in) {
    parts_.clear();
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank() + i) % size();
      const Part part{.peer = peer, .out = out(peer), .in = in(peer)};
      bytes_sent_ += part.out.bytes();
      if (part.out.count() > 0 || part.in.count() > 0) parts_.push_back(part);
    }
    issue(sums_, parts_);
  }

  // ---- tensors that are sent in their own type ----

  /// Memory for everyone's contributions to n elements: [ranks, n].
  View room_for(DType dtype, int64_t n) const {
    const auto buffer = std::ranges::find_if(
        contributions_, [&](const View& of) { return of.dtype() == dtype && of.count() >= size() * n; });
    assert(buffer != contributions_.end());
    return buffer->rows_slice(0, size() * n).reshape({size(), n});
  }

  void add_up_directly(View x, Pieces pieces, View sum) {
    const View room = room_for(x.dtype(), sum.count());
    const auto part = [&](int r) { return room.rows_slice(r, 1).reshape({sum.count()}); };
    issue_between([&](int r) { return piece_of(x, pieces[static_cast<size_t>(r)]); }, part);
    if (sum.count() == 0) return;
    ops_.cast(context_, piece_of(x, own(pieces)), part(rank()));
    ops_.sum_parts(context_, room, sum);
  }

  void share_directly(View x, Pieces pieces) {
    issue_between([&](int) { return piece_of(x, own(pieces)); },
                  [&](int r) { return piece_of(x, pieces[static_cast<size_t>(r)]); });
  }

  // ---- f32 that is sent in chunks, rounded ----

  void for_chunks(View x, Pieces pieces, [[maybe_unused]] DType wire, const auto& action) {
    assert(wire == wire_);
    const int64_t longest = longest_of(pieces);
    for (int64_t first = 0; first < longest; first += limit_) action(Chunk{x, pieces, first, limit_});
  }
  static View of(const Chunk& chunk, int r) { return chunk.array.rows_slice(chunk.begin(r), chunk.length(r)); }
  static View row(View rows, int r, int64_t n) {
    return rows.rows_slice(r, 1).reshape({rows.width()}).rows_slice(0, n);
  }

  /// This rank's part of the chunk becomes the sum, which is also in its row of `out`.
  void add_up(const Chunk& chunk) {
    const int64_t n = chunk.length(rank());
    const bool rounds = wire_ != DType::f32;
    const auto leaves = [&](int r) {
      const View part = of(chunk, r);
      return rounds ? row(rows_->out, r, part.count()) : part;
    };
    for (int r = 0; r < size() && rounds; ++r)
      if (r != rank() && chunk.length(r) > 0) ops_.wire_cast(context_, of(chunk, r), leaves(r));
    issue_between(leaves, [&](int r) { return row(rows_->in, r, n); });
    if (n == 0) return;
    terms_.assign(static_cast<size_t>(size()), {});  // this rank's entry stays empty
    for (int r = 0; r < size(); ++r)
      if (r != rank()) terms_[static_cast<size_t>(r)] = row(rows_->in, r, n);
    ops_.sum_contributions(context_, terms_, of(chunk, rank()), row(rows_->out, rank(), n));
  }

  /// The sum in this rank's row of `out` goes to all, theirs arrive.
  void share(const Chunk& chunk) {
    const bool rounded = wire_ != DType::f32;
    const auto arrives = [&](int r) {
      const View part = of(chunk, r);
      return rounded ? row(rows_->in, r, part.count()) : part;
    };
    const int64_t n = chunk.length(rank());
    issue_between([&](int) { return rounded ? row(rows_->out, rank(), n) : of(chunk, rank()); }, arrives);
    for (int r = 0; r < size() && rounded; ++r)
      if (r != rank() && chunk.length(r) > 0) ops_.wire_cast(context_, arrives(r), of(chunk, r));
  }

  // ---- the same, added up by the library ----

  void convert(ConstView x, View y) {
    if (x.count() == 0) return;
    if (wire_ == DType::f32)
      context_.stream->copy(x, y);
    else
      ops_.wire_cast(context_, x, y);
  }

  /// All parts of a chunk, rounded: [ranks, n], n = that of the longest one. The ends of the others' rows mean nothing.
  View take_rounded(const Chunk& chunk) {
    const int64_t n = std::min(longest_of(chunk.pieces) - chunk.first, limit_);
    const View all = rows_->out.first_as({size(), n});
    for (int r = 0; r < size(); ++r) convert(of(chunk, r), row(all, r, chunk.length(r)));
    return all;
  }

  void sum_by_library(const Chunk& chunk) {
    const View all = take_rounded(chunk);
    bytes_sent_ += 2 * all.bytes() / static_cast<size_t>(size()) * static_cast<size_t>(size() - 1);  // the least
    sums_.links->collective(*sums_.stream, DeviceCollective::all_reduce, all, all, 0);
    for (int r = 0; r < size(); ++r) convert(row(all, r, chunk.length(r)), of(chunk, r));
  }

  void scatter_sum_by_library(const Chunk& chunk) {
    const View all = take_rounded(chunk);
    const View own = row(rows_->in, 0, all.width());
    bytes_sent_ += own.bytes() * static_cast<size_t>(size() - 1);  // the least
    sums_.links->collective(*sums_.stream, DeviceCollective::reduce_scatter, all, own, 0);
    convert(own.rows_slice(0, chunk.length(rank())), of(chunk, rank()));
  }

  const std::unique_ptr<Communicator> group_;
  Ops& ops_;
  DeviceNetwork& network_;
  Context context_{.threads = 1};
  const DType wire_;
  const Exchange exchange_;
  const int64_t limit_;    ///< of a chunk, elements per rank
  const bool by_library_;  ///< sums of chunks
  Arena arena_;
  View greetings_;
  std::optional<Rows> rows_;
  std::vector<View> contributions_;
  Lane sums_, sends_, receives_;
  int from_ = -1, to_ = -1;
  const std::shared_ptr<Connections> connections_ = std::make_shared<Connections>(network_);
  std::array<Event, 3> last_;  ///< of the lanes
  std::optional<bool> ended_;
  uint64_t bytes_sent_ = 0;
  std::vector<Part> parts_;       ///< of the current call
  std::vector<ConstView> terms_;  ///< of the current sum
};

}  // namespace

std::unique_ptr<StreamGroup> make_device_group(Communicator& axis, Ops& ops, const GroupOptions& options) {
  return std::make_unique<DeviceGroup>(axis, ops, options);
}

int64_t device_chunk_limit(int ranks, DType wire) {
  const size_t most = kMostBufferBytes / (2 * static_cast<size_t>(ranks));  // what leaves and what arrives
  return static_cast<int64_t>(std::min(kDeviceChunkBytes, most) / size_of(wire));
}

size_t device_group_bytes(int ranks, const GroupOptions& options) { return bytes_of(ranks, options); }

}  // namespace trireme
