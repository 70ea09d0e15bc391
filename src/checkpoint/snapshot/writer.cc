#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/time.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/safetensors/safetensors.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "checkpoint/snapshot/local_disk.h"
#include "checkpoint/snapshot/manifest.h"
#include "checkpoint/snapshot/publication.h"
#include "checkpoint/snapshot/shared_copies.h"
#include "checkpoint/snapshot/slices.h"
#include "comm/agreement.h"
#include "comm/heartbeat.h"
#include "optim/parameter_hash.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

/// Values of a part of a parameter that this process holds some of.
struct Values {
  std::string_view part;
  const Parameter* parameter = nullptr;
  int64_t first = 0, count = 0;  ///< from its first one here
};

/// Copies of the optimizer's state only those present here.
void copy(const TrainingState& state, const Values& values, float* out) {
  const std::span to(out, static_cast<size_t>(values.count));
  if (values.part == kWeightPart) return state.read_weights(values.parameter->offset + values.first, to);
  state.read_state(values.part, *values.parameter, values.first, to);
}

/// The part of each rank of the group.
std::vector<Layout> gather_layouts(const Layout& own, Scalars& scalars) {
  constexpr size_t kOfPart = 4, kOfRank = 2;
  std::vector<int64_t> numbers{own.tensor_rank, own.tensor_size};
  std::vector<ModelPart> parts{own.part};
  parts.insert(parts.end(), own.chunks.begin(), own.chunks.end());
  for (const ModelPart& part : parts)
    numbers.insert(numbers.end(), {part.first_layer, part.last_layer, part.embedding, part.head});
  const std::string_view text(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int64_t));
  std::vector<Layout> layouts;
  for (const std::string& said : scalars.gather(text)) {
    std::vector<int64_t> n(said.size() / sizeof(int64_t));
    std::memcpy(n.data(), said.data(), said.size());
    Layout& layout = layouts.emplace_back(Layout{{}, static_cast<int>(n[0]), static_cast<int>(n[1]), {}});
    for (size_t at = kOfRank; at < n.size(); at += kOfPart) {
      const ModelPart part{n[at], n[at + 1], n[at + 2] != 0, n[at + 3] != 0};
      at == kOfRank ? layout.part = part : layout.chunks.emplace_back(part);
    }
  }
  return layouts;
}

/// Each rank's part of the optimizer's state.
std::vector<std::vector<ParameterRange>> gather_owned(const TrainingState& state, Scalars& scalars) {
  std::vector<ParameterRange> own;
  state.for_owned(0, state.weights().count(), [&](int64_t begin, int64_t count, int64_t) {
    own.push_back({begin, begin + count});
  });
  const std::string_view text(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(ParameterRange));
  std::vector<std::vector<ParameterRange>> all;
  for (const std::string& said : scalars.gather(text)) {
    std::vector<ParameterRange>& ranges = all.emplace_back(said.size() / sizeof(ParameterRange));
    std::memcpy(ranges.data(), said.data(), said.size());
  }
  return all;
}

std::vector<View> take_buffers(std::span<const Slice> slices, Arena& arena) {
  std::vector<View> buffers;
  for (const Slice& slice : slices) buffers.push_back(arena.take(DType::f32, slice.box.count));
  return buffers;
}

/// Those of `missing` that are in `ranges` leave it and are returned. All ascending.
std::vector<ParameterRange> take_out(std::vector<ParameterRange>& missing, std::span<const ParameterRange> ranges) {
  std::vector<ParameterRange> found, rest;
  for (ParameterRange part : missing) {
    for (const ParameterRange& range : ranges) {
      const int64_t begin = std::max(part.begin, range.begin), end = std::min(part.end, range.end);
      if (begin >= end) continue;
      found.push_back({begin, end});
      if (part.begin < begin) rest.push_back({part.begin, begin});
      part.begin = end;
    }
    if (part.begin < part.end) rest.push_back(part);
  }
  missing = std::move(rest);
  return found;
}

/// Values of a slice that one rank keeps and another one stores.
struct Transfer {
  int peer = 0;
  bool leaves = false;  ///< else it arrives
  Values values{};
  float* to = nullptr;  ///< in the snapshot, where it arrives
};
constexpr size_t kTransfersOnTheirWay = 8;
constexpr int kStateTag = 5;

/// The error of `work`, or empty.
template <class Work>
std::string failure_of(Work work) {
  try {
    work();
    return {};
  } catch (const std::exception& e) {
    return *e.what() ? e.what() : "unknown failure";
  }
}

}  // namespace

struct CheckpointWriter::Implementation {
  std::string run_dir;
  const ParameterTable& table;
  const ParameterTable whole;  // of the whole model
  const TrainingState& state;
  Communicator& group;
  const std::unique_ptr<Communicator> background;  // the same ranks; the writer threads issue its calls
  Heartbeat* const heartbeat;
  std::function<void()> check_owner;
  const std::string dir_option;  // the name of the run folder's option in messages
  const bool has_states;
  std::string token;  // of the folders that are written
  std::vector<std::vector<Slice>> slices_of_ranks;
  std::vector<Values> sources;  // of this rank's slices in the state
  Arena arena;
  std::vector<View> buffers;
  std::vector<Transfer> transfers;  // in an order that is the same on both sides of each

  bool pending = false, best = false;
  std::string local;  // on this host's disk, target of the current save; empty: the run folder
  int64_t saves = 0;  // that have begun: a step may be saved again while its first save is still copied
  CheckpointFacts facts;
  std::thread writer;
  /// What the writer thread does. agrees: it waits for what other ranks' threads do.
  enum class Stage { writes, agrees, publishes, idle };
  std::atomic<Stage> stage{Stage::idle};
  std::atomic<int64_t> slices_done{0};
  mutable std::mutex mutex;  // of a change of `stage` that is waited for
  mutable std::condition_variable changed;
  // Filled by the writer thread, read after it was joined.
  std::vector<uint64_t> hashes;  // this rank's part of the weights' hash, of the header, then of each slice
  std::optional<Manifest> published;
  std::exception_ptr failure;
  Clock::time_point begun;
  double seconds = 0;  // from `begun` to the end of the writer thread's work

  std::thread janitor;  // prunes; rank 0 only
  /// Between a step's rename and the write of `latest` it looks abandoned, and would be deleted.
  mutable std::mutex changing;

  Implementation(const std::string& dir, const ParameterTable& t, const TrainingState& s, Communicator& g, Heartbeat* p,
                 std::function<void()> owner, std::string option)
      : run_dir(dir),
        table(t),
        whole(t.whole()),
        state(s),
        group(g),
        background(g.split(0, g.rank())),
        heartbeat(p),
        check_owner(owner ? std::move(owner) : [] {}),
        dir_option(std::move(option)),
        has_states(s.trains()) {}

  /// Where this rank writes its part of the save under way.
  std::string saving_folder() const {
    if (local.empty()) return run_dir + "/" + saving_name(facts.progress.step, token);
    return local + "/" + local_step_name(facts.progress.step, fmt::format("{}{:04x}", token, saves));
  }

  const std::vector<Slice>& slices() const { return slices_of_ranks[static_cast<size_t>(group.rank())]; }

  Manifest planned() const { return plan_manifest(whole, slices_of_ranks, facts, has_states); }

  void plan(std::span<const Layout> layouts) {
    slices_of_ranks = plan_slices(whole, layouts, has_states);
    check_cover(planned(), run_dir);  // finds elements that no rank holds now, not when the checkpoint is needed
    for (const Slice& slice : slices()) sources.push_back(values_of_slice(slice));
    Arena measure;
    (void)take_buffers(slices(), measure);
    arena = Arena(measure.peak());
    std::memset(arena.base(), 0, arena.capacity());  // memory that is missing is missed now, not at the first save
    buffers = take_buffers(slices(), arena);
  }

  /// The values of a slice of a layout like this rank's.
  Values values_of_slice(const Slice& slice) const {
    const Parameter& own = table.find(whole.all()[slice.parameter].name);
    return {slice.part, &own, (slice.box.begin[0] - own.box.begin[0]) * slice.box.row_width(), slice.box.elements()};
  }

  bool everyone_has_masters() const { return state.remainder().empty() && !state.shards_weights(); }

  /// For ranks that share the optimizer's state. owned: by rank.
  void plan_transfers(std::span<const Layout> layouts, const std::vector<std::vector<ParameterRange>>& owned) {
    const int self = group.rank();
    const auto shares = [&](size_t rank) { return layouts[rank] == table.layout(); };
    for (size_t writer_rank = 0; writer_rank < layouts.size(); ++writer_rank) {
      if (!shares(writer_rank)) continue;
      const std::vector<Slice>& list = slices_of_ranks[writer_rank];
      for (size_t i = 0; i < list.size(); ++i) {
        if (list[i].is_weight() && everyone_has_masters()) continue;
        const Values wanted = values_of_slice(list[i]);
        const Parameter& own = *wanted.parameter;
        const auto named = std::ranges::find(own.states, list[i].part, &StateKind::name);
        const StateKind kind = named == own.states.end() ? StateKind{kWeightPart} : *named;
        const int64_t width = kind.extent == StateExtent::element ? 1 : own.box.row_width();  // elements of a value
        const int64_t begin = own.offset + wanted.first * width;
        // The writer's own elements are not sent; of other ranks with the same elements the first one after it sends.
        std::vector<ParameterRange> missing{{begin, begin + wanted.count * width}};
        for (size_t k = 0; k < owned.size(); ++k) {
          const size_t owner = (writer_rank + k) % owned.size();
          if (!shares(owner)) continue;
          const bool leaves = static_cast<int>(owner) == self, arrives = static_cast<int>(writer_rank) == self;
          for (const ParameterRange& found : take_out(missing, owned[owner])) {
            const ParameterRange values = values_of(kind, own, {found.begin - own.offset, found.end - own.offset});
            if (leaves == arrives || values.empty()) continue;
            transfers.push_back({static_cast<int>(leaves ? writer_rank : owner),
                                 leaves,
                                 {list[i].part, &own, values.begin, values.end - values.begin},
                                 arrives ? buffers[i].as<float>() + (values.begin - wanted.first) : nullptr});
          }
        }
      }
    }
  }

  /// Collective: parts of slices that others keep arrive in the snapshot.
  void run_transfers() {
    constexpr const char* kWhat = "the optimizer's state of other ranks";
    struct OnItsWay {
      Handle handle;
      std::vector<float> values;  // that leave
    };
    if (transfers.empty()) return;
    std::deque<OnItsWay> on_their_way;
    const Waiting waiting(heartbeat, kWhat, 0);
    for (const Transfer& transfer : transfers) {
      OnItsWay& next = on_their_way.emplace_back();
      if (transfer.leaves) {
        next.values.resize(static_cast<size_t>(transfer.values.count));
        copy(state, transfer.values, next.values.data());
        next.handle = group.send(View(std::span(next.values), {transfer.values.count}), transfer.peer, kStateTag);
      } else {
        next.handle = group.receive(View(transfer.to, DType::f32, {transfer.values.count}), transfer.peer, kStateTag);
      }
      if (on_their_way.size() < kTransfersOnTheirWay) continue;
      on_their_way.front().handle.wait(kWhat);
      on_their_way.pop_front();
    }
    for (OnItsWay& last : on_their_way) last.handle.wait(kWhat);
  }

  void join() {
    if (writer.joinable()) writer.join();
    if (janitor.joinable()) janitor.join();
  }

  /// The slices of all ranks have each element once, so their parts add up.
  uint64_t weights_hash(const Slice& slice, ConstView values) const {
    const Parameter& parameter = whole.all()[slice.parameter];
    if (!slice.is_weight()) return 0;
    return box_hash(parameter_key(parameter.name), parameter.global_shape, slice.box, values.values<float>());
  }

  void write_files() {
    const std::string folder = saving_folder();
    std::error_code error;
    if (!local.empty()) fs::create_directories(local, error);
    require(!error, ErrorKind::io, "cannot create {}: {}", local, error.message());
    check_own_space();
    fs::create_directory(folder, error);
    require(!error, ErrorKind::io, "cannot create {}: {}", folder, error.message());
    SafetensorsWriter shard(folder + "/" + shard_name(group.rank(), group.size()), shard_entries(whole, slices()),
                            shard_metadata());
    hashes = {0, xxh3(std::as_bytes(std::span(shard.header())))};
    for (size_t i = 0; i < buffers.size(); ++i) {
      hashes[0] += weights_hash(slices()[i], buffers[i]);
      const std::span bytes_of(static_cast<const std::byte*>(buffers[i].data()), buffers[i].bytes());
      const Box& box = slices()[i].box;
      const auto piece = static_cast<size_t>(piece_rows(box) * box.row_width()) * sizeof(float);
      for (size_t at = 0; at < bytes_of.size(); at += piece)
        hashes.push_back(xxh3(bytes_of.subspan(at, std::min(piece, bytes_of.size() - at))));
      shard.write(i, bytes_of);
      ++slices_done;
      if (heartbeat) heartbeat->move();
    }
    shard.commit();
    if (local.empty() && group.rank() == 0 && !facts.tokenizer_json.empty()) {
      write_text(folder + "/tokenizer.json", facts.tokenizer_json);
    }
  }

  /// `hashes_of`: the bytes of each rank's hashes.
  Manifest make_manifest(const std::vector<std::string>& hashes_of) const {
    Manifest manifest = planned();
    auto slice = manifest.slices.begin();
    uint64_t of_weights = 0;
    for (size_t rank = 0; rank < manifest.shards.size(); ++rank) {
      std::vector<uint64_t> own(hashes_of[rank].size() / sizeof(uint64_t));
      std::memcpy(own.data(), hashes_of[rank].data(), own.size() * sizeof(uint64_t));
      assert(own.size() >= 2);
      of_weights += own[0];
      manifest.shards[rank].header_hash = own[1];
      for (auto hash = own.begin() + 2; hash != own.end(); ++slice) {
        assert(slice != manifest.slices.end() && slice->shard == rank);
        for (uint64_t& place : slice->hashes) place = *hash++;
      }
    }
    assert(slice == manifest.slices.end());
    manifest.facts.parameter_hash = hex64(of_weights);
    return manifest;
  }

  /// Checks that the files of this rank fit on the disk.
  void check_own_space() const {
    const std::vector<uint64_t> sizes = file_sizes(planned());
    if (!local.empty()) {
      std::vector<uint64_t> here = {sizes[static_cast<size_t>(group.rank())]};
      here.insert(here.end(), sizes.begin() + group.size(), sizes.end());
      return void(check_space(local, fmt::format("rank {}'s part of a snapshot in {}", group.rank(), local), here,
                              "free some space there or set --checkpoint.local to another disk"));
    }
    if (group.size() == 1)
      return void(check_space(run_dir, fmt::format("a checkpoint in {}", run_dir), sizes, "", dir_option));
    std::vector<uint64_t> own = {sizes[static_cast<size_t>(group.rank())]};
    if (group.rank() == 0) own.insert(own.end(), sizes.begin() + group.size(), sizes.end());
    const uint64_t all = std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
    check_space(run_dir,
                fmt::format("rank {}'s part of a checkpoint in {} ({:.2f} MB in total)", group.rank(), run_dir,
                            static_cast<double>(all) / 1e6),
                own, "", dir_option);
  }

  void enter(Stage next) {
    const std::lock_guard lock(mutex);
    stage = next;
    changed.notify_all();
  }

  void start_writing() {
    stage = Stage::writes;
    slices_done = 0;
    published.reset();
    failure = nullptr;
    writer = std::thread([this, starter = log::identity()] {
      const log::ThreadIdentity identity(starter);
      try {
        write_and_publish();
      } catch (...) {
        failure = std::current_exception();
        drop_files();
      }
      seconds = seconds_since(begun);
      enter(Stage::idle);
    });
  }

  /// The shards of all ranks, then their manifest: rank 0 writes it into the run folder, each host's first rank on its
  /// local disk.
  void write_and_publish() {
    const std::string unwritten = failure_of([&] { write_files(); });
    enter(Stage::agrees);
    Scalars scalars(*background);
    agree_on_success(scalars, unwritten);
    const std::string_view own(reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(uint64_t));
    const Manifest manifest = make_manifest(scalars.gather(own));
    const bool writes = !local.empty() || group.rank() == 0;
    together(scalars, [&] {
      if (!writes) return;
      enter(Stage::publishes);
      local.empty() ? publish_shared(manifest) : complete_local(manifest);
      enter(Stage::agrees);
    });
    published = manifest;
  }

  void publish_shared(const Manifest& manifest) const {
    const std::lock_guard lock(changing);
    publish_step({.run_dir = run_dir, .token = token, .manifest = manifest, .best = best, .check_owner = check_owner});
  }

  void complete_local(const Manifest& manifest) const {
    const std::string folder = saving_folder();
    if (!facts.tokenizer_json.empty()) write_alike(folder, "tokenizer.json", facts.tokenizer_json, group.rank());
    write_alike(folder, "manifest.json", write_manifest(manifest), group.rank());
  }

  /// Waits for the writer thread. Throws its error.
  const Manifest& finish_writing() {
    join();
    pending = false;
    if (failure) std::rethrow_exception(failure);
    return *published;
  }

  /// Space in the run folder is checked by rank 0, space on a local disk by every rank.
  void drop_files() const {
    if (!local.empty()) return remove_local_step(saving_folder());
    std::error_code ignored;
    if (group.rank() == 0) fs::remove_all(saving_folder(), ignored);
  }
};

size_t CheckpointWriter::snapshot_bytes(const ParameterTable& whole, std::span<const Layout> layouts, int rank,
                                        bool states) {
  Arena measure;
  (void)take_buffers(plan_slices(whole, layouts, states)[static_cast<size_t>(rank)], measure);
  return measure.peak();
}

CheckpointWriter::CheckpointWriter(const std::string& run_dir, const ParameterTable& table, const TrainingState& state,
                                   Communicator& group, Heartbeat* heartbeat, std::function<void()> check_owner,
                                   std::string dir_option)
    : implementation_(std::make_unique<Implementation>(run_dir, table, state, group, heartbeat, std::move(check_owner),
                                                       std::move(dir_option))) {
  assert(state.weights().dtype() != DType::f64);
  Implementation& self = *implementation_;
  Scalars scalars(group);
  const std::vector<Layout> layouts = gather_layouts(table.layout(), scalars);
  const std::string failure = failure_of([&] {
    if (group.rank() == 0) prepare_run_folder(run_dir);
    self.plan(layouts);
  });
  agree_on_success(scalars, failure);
  if (state.is_sharded()) self.plan_transfers(layouts, gather_owned(state, scalars));
  std::random_device device;
  self.token = scalars.broadcast(group.rank() == 0 ? fmt::format("{:08x}", device()) : std::string());
}

CheckpointWriter::~CheckpointWriter() { implementation_->join(); }

void CheckpointWriter::begin(const CheckpointFacts& facts, const std::string& local, bool best) {
  Implementation& self = *implementation_;
  assert(!self.pending);
  self.join();
  self.begun = Clock::now();
  self.facts = facts;
  self.local = local;
  self.best = best;
  ++self.saves;
  const auto count = static_cast<int64_t>(self.buffers.size());
  std::exception_ptr failure;  // of a device; it must not leave the region
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) {
    try {
      const auto at = static_cast<size_t>(i);
      copy(self.state, self.sources[at], self.buffers[at].as<float>());
    } catch (...) {
#pragma omp critical(trireme_snapshot_failure)
      failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  self.run_transfers();
  self.pending = true;
  self.start_writing();
}

bool CheckpointWriter::pending() const { return implementation_->pending; }
bool CheckpointWriter::is_local() const { return !implementation_->local.empty(); }
const std::string& CheckpointWriter::parameter_hash() const { return implementation_->published->facts.parameter_hash; }
const std::string& CheckpointWriter::token() const { return implementation_->token; }
double CheckpointWriter::seconds() const { return implementation_->seconds; }
bool CheckpointWriter::idle() const { return implementation_->stage == Implementation::Stage::idle; }
bool CheckpointWriter::waits_for_ranks() const { return implementation_->stage == Implementation::Stage::agrees; }
int64_t CheckpointWriter::slices_done() const { return implementation_->slices_done; }

bool CheckpointWriter::wait(double seconds) const {
  const Implementation& self = *implementation_;
  std::unique_lock lock(self.mutex);
  return self.changed.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return idle(); });
}

SnapshotSpace CheckpointWriter::require_space(const CheckpointFacts& facts) {
  const Implementation& self = *implementation_;
  SnapshotSpace space;
  const std::string failure = failure_of([&] {
    if (self.group.rank() != 0) return;
    space = check_space(self.run_dir, fmt::format("a checkpoint in {}", self.run_dir),
                        file_sizes(plan_manifest(self.whole, self.slices_of_ranks, facts, self.has_states)), "",
                        self.dir_option);
  });
  Scalars scalars(self.group);
  agree_on_success(scalars, failure);
  return space;
}

void CheckpointWriter::prune(int64_t keep) {
  Implementation& self = *implementation_;
  if (self.group.rank() != 0 || keep <= 0) return;
  if (self.janitor.joinable()) self.janitor.join();
  self.janitor = std::thread([&self, dir = self.run_dir, keep, starter = log::identity()] {
    const log::ThreadIdentity identity(starter);
    const std::lock_guard lock(self.changing);
    const std::string failure = failure_of([&] {
      self.check_owner();
      prune_checkpoints(dir, keep);
    });
    if (!failure.empty()) log::warning("older checkpoints could not be deleted: {}", failure);
  });
}

std::optional<std::string> CheckpointWriter::publish(int64_t keep) {
  Implementation& self = *implementation_;
  if (!self.pending) return {};
  (void)self.finish_writing();
  prune(keep);
  return self.run_dir + "/" + step_name(self.facts.progress.step);
}

void CheckpointWriter::retry(const std::string& run_dir) {
  Implementation& self = *implementation_;
  assert(!self.pending && self.failure);
  if (run_dir != self.run_dir) {
    self.run_dir = run_dir;
    self.check_owner = [] {};
    Scalars scalars(self.group);
    together(scalars, [&] {
      if (self.group.rank() == 0) prepare_run_folder(run_dir);
    });
  }
  self.pending = true;
  self.start_writing();
}

std::optional<LocalSnapshot> CheckpointWriter::publish_local() {
  Implementation& self = *implementation_;
  assert(self.pending && is_local());
  try {
    const Manifest& manifest = self.finish_writing();
    return LocalSnapshot{
        .folder = self.saving_folder(), .manifest = manifest, .shards = {static_cast<size_t>(self.group.rank())}};
  } catch (const CommonError& e) {
    if (e.kind() != ErrorKind::io) throw;
    log::write_once(log::Level::warning,
                    fmt::format("cannot write the snapshot of step {} to a local disk; writing it directly to {}: {}",
                                self.facts.progress.step, self.run_dir, e.what()));
  }
  self.local.clear();
  self.pending = true;
  self.start_writing();
  return {};
}

}  // namespace trireme
