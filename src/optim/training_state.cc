#include "optim/training_state.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"
#include "model/adapters.h"
#include "tensor/f16.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 4096;          // elements per thread at a time: 16 KiB of f32, half an L1 cache
constexpr int64_t kWorthATeam = 1 << 16;  // below, waking threads costs more than they save

int64_t count_of(std::span<const ParameterRange> ranges) {
  int64_t count = 0;
  for (const ParameterRange& range : ranges) count += range.end - range.begin;
  return count;
}

DType wide_type(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

/// Those of the elements before `end`.
std::vector<ParameterRange> before(std::span<const ParameterRange> ranges, int64_t end) {
  std::vector<ParameterRange> found;
  for (const ParameterRange& range : ranges)
    if (range.begin < end) found.push_back({range.begin, std::min(range.end, end)});
  return found;
}

/// An array of that many elements; empty without any.
View take(Arena& arena, DType dtype, int64_t count) { return count > 0 ? arena.take(dtype, Shape{count}) : View(); }

/// What is held of a state; without `kept.owned` of all parameters that keep it.
std::vector<StateArray::Held> held_of(const StateKind& kind, const ParameterTable& table, const KeptState& kept) {
  std::vector<StateArray::Held> held;
  int64_t place = 0;
  const auto add = [&](const Parameter& parameter, ParameterRange values) {
    const int64_t count = values.end - values.begin;
    const bool follows = !held.empty() && held.back().parameter == parameter.offset &&
                         held.back().first + held.back().count == values.begin;
    if (follows) {
      held.back().count += count;
    } else if (count > 0) {
      held.push_back({parameter.offset, values.begin, count, place});
    }
    place += count;
  };
  for (const Parameter& parameter : table.all()) {
    if (std::ranges::find(parameter.states, kind) == parameter.states.end()) continue;
    // The gap behind a parameter has values, too, so that a state of all elements has their offsets.
    const auto with_gap = [](int64_t count) {
      return (count + kOffsetMultiple - 1) / kOffsetMultiple * kOffsetMultiple;
    };
    if (kept.owned.empty()) {
      add(parameter, {0, with_gap(value_count(kind, parameter))});
      continue;
    }
    const int64_t count = with_gap(parameter.count()), end = parameter.offset + count;
    auto range = std::ranges::upper_bound(kept.owned, parameter.offset, {}, &ParameterRange::end);
    for (; range != kept.owned.end() && range->begin < end; ++range)
      add(parameter, values_of(kind, parameter,
                               {std::max<int64_t>(0, range->begin - parameter.offset),
                                std::min(count, range->end - parameter.offset)}));
  }
  return held;
}

/// Takes the arrays from arenas that measure or hold them. passing: arrays with memory for a part at a time.
struct Arrays {
  View weights, remainder, gradients, sums;
  std::vector<StateArray> states;
  Arrays(Arena& arena, Arena& passing, const ParameterTable& table, DType dtype, bool trains, const KeptState& kept) {
    const bool sharded = !kept.owned.empty();
    const Shape own{sharded ? count_of(kept.owned) : table.flat_count()};
    weights = (kept.weights ? passing : arena).take(dtype, Shape{table.flat_count()});
    if (dtype == DType::bf16 || dtype == DType::f16)
      remainder = arena.take(dtype == DType::bf16 ? DType::i16 : DType::f32, own);
    if (!trains) return;
    const int64_t trained = sharded ? count_of(before(kept.owned, table.trained_count())) : table.trained_count();
    gradients = take(kept.gradients ? passing : arena, wide_type(dtype), table.gradient_count());
    if (kept.gradients) sums = take(arena, wide_type(dtype), trained);
    for (const Parameter& parameter : table.all()) {
      for (const StateKind& kind : parameter.states)
        if (std::ranges::find(states, kind, &StateArray::kind) == states.end()) states.push_back({kind});
    }
    for (StateArray& state : states) {
      state.held = held_of(state.kind, table, kept);
      const int64_t count = state.held.empty() ? 0 : state.held.back().place + state.held.back().count;
      state.values = take(arena, wide_type(dtype), count);
    }
  }
};

/// Elements of the range that are not in `owned` (ascending).
int64_t count_of_others(const ParameterRange& range, std::span<const ParameterRange> owned) {
  int64_t count = range.end - range.begin;
  for (const ParameterRange& own : owned)
    count -= std::max<int64_t>(0, std::min(range.end, own.end) - std::max(range.begin, own.begin));
  return count;
}

/// The most elements of `so_many` consecutive groups, by the elements of each.
int64_t most_in_turn(std::span<const int64_t> groups, size_t so_many) {
  int64_t most = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    int64_t count = 0;
    for (const int64_t of_group : groups.subspan(i, std::min(so_many, groups.size() - i))) count += of_group;
    most = std::max(most, count);
  }
  return most;
}

/// What passing arrays hold at a time. Gradients: those that a layer writes and those of the layer before, being
/// exchanged. Weights: the owned ones, and those of others for two layers: the one that computes and the next.
size_t held_bytes(const ParameterTable& table, DType dtype, bool trains, const KeptState& kept) {
  constexpr size_t kInTurn = 2;
  size_t bytes = 0;
  if (kept.weights) {
    std::vector<int64_t> others;
    for (size_t i = 0; i < table.ready_ranges().size(); ++i) {
      const WeightRanges& group = table.weights_of(i);
      others.push_back(count_of_others(group.trained, kept.owned) + count_of_others(group.frozen, kept.owned));
    }
    bytes += static_cast<size_t>(count_of(kept.owned) + most_in_turn(others, kInTurn)) * size_of(dtype);
  }
  if (kept.gradients && trains) {
    std::vector<int64_t> gradients;
    for (const ParameterRange& range : table.ready_ranges()) gradients.push_back(range.end - range.begin);
    bytes += static_cast<size_t>(most_in_turn(gradients, kInTurn)) * size_of(wide_type(dtype));
  }
  return bytes;
}

void join(std::span<const bf16_t> high, std::span<const int16_t> low, float* out) {
  const bf16_t* const upper = high.data();
  const int16_t* const lower = low.data();
  const size_t count = high.size();
#pragma omp simd
  for (size_t i = 0; i < count; ++i)
    out[i] = std::bit_cast<float>((uint32_t{upper[i].bits} << 16) + static_cast<uint32_t>(int32_t{lower[i]}));
}

/// The remainders of values after rounding to bf16.
void split(const float* values, std::span<int16_t> low) {
  for (size_t i = 0; i < low.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    low[i] = static_cast<int16_t>(bits - (uint32_t{to_bf16_master(values[i]).bits} << 16));
  }
}

/// Sets weights [first, first + n).
void store_run(TrainingState& state, int64_t first, const float* values, int64_t n) {
  const View weights = state.weights().rows_slice(first, n);
  switch (state.weights().dtype()) {
    case DType::bf16:
      write_values<bf16_t>(weights, [&](auto to) { std::transform(values, values + n, to.begin(), to_bf16_master); });
      state.for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t place) {
        write_values<int16_t>(state.owned_remainder(count, place),
                              [&](auto to) { split(values + (begin - first), to); });
      });
      return;
    case DType::f16:
      write_values<f16_t>(weights, [&](auto to) { std::transform(values, values + n, to.begin(), to_f16); });
      state.for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t place) {
        write_values<float>(state.owned_remainder(count, place),
                            [&](auto to) { std::copy_n(values + (begin - first), count, to.begin()); });
      });
      return;
    case DType::f64:
      write_values<double>(weights, [&](auto to) { std::copy(values, values + n, to.begin()); });
      return;
    default:
      write_values<float>(weights, [&](auto to) { std::copy(values, values + n, to.begin()); });
  }
}

/// Sets elements [first, first + n) of the flat weights, as far as this rank keeps them.
void store(TrainingState& state, int64_t first, const float* values, int64_t n) {
  if (!state.shards_weights()) return store_run(state, first, values, n);
  state.for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t) {
    store_run(state, begin, values + (begin - first), count);
  });
}

int64_t stored_count(const Parameter& parameter) { return parameter.stored_shape.count(); }

/// Uniform in [-1, 1): a pure function of both.
double uniform_at(uint64_t key, uint64_t index) { return 2 * RandomStream(key, index).uniform() - 1; }

/// The logarithm of a value in (0, 16): a pure function of both.
double log_uniform_at(uint64_t key, uint64_t index) {
  constexpr double kLeast = 1e-4;  // uniform() may be 0
  return std::log(std::max(kLeast, 16 * RandomStream(key, index).uniform()));
}

/// Random values of the parameter's stored elements [first, first + n).
void draw(const Parameter& parameter, uint64_t key, int64_t first, int64_t n, float* out) {
  const Box box = parameter.stored(), all = whole_box(parameter.global_shape);
  const int last = box.dims() - 1;
  const bool logs = parameter.init == Init::log_uniform;
  const auto value_at = logs ? log_uniform_at : parameter.init == Init::uniform ? uniform_at : normal_at;
  const double factor = logs ? 1 : static_cast<double>(parameter.init_std);
  for (int64_t done = 0; done < n;) {
    const Shape index = index_at(box, first + done);
    const auto element = static_cast<uint64_t>(offset_of(all, index));
    const int64_t length = std::min(n - done, box.end(last) - index[last]);
    for (int64_t i = 0; i < length; ++i)
      out[done + i] = static_cast<float>(factor * value_at(key, element + static_cast<uint64_t>(i)));
    done += length;
  }
}

/// In pieces, so that copies need little memory.
void zero(View array) {
  constexpr int64_t kPiece = int64_t{1} << 24;
  if (!array.device() && !array.empty()) std::memset(array.data(), 0, array.bytes());
  if (!array.device()) return;
  const std::vector<std::byte> zeros(static_cast<size_t>(std::min(array.count(), kPiece)) * size_of(array.dtype()));
  for (int64_t at = 0; at < array.count(); at += kPiece) {
    const View piece = array.rows_slice(at, std::min(kPiece, array.count() - at));
    array.device()->stream().copy(ConstView(zeros.data(), piece.dtype(), piece.shape()), piece);
  }
}

void check_size(const char* call, const Parameter& parameter, size_t found) {
  require(found == static_cast<size_t>(stored_count(parameter)), ErrorKind::shape,
          "{} of {}: got {} values, expected {} = {}", call, parameter.name, found, parameter.stored_shape.to_string(),
          stored_count(parameter));
}

/// Sets a parameter by its Init.
void fill(TrainingState& state, const Parameter& parameter, uint64_t seed) {
  const uint64_t key = mix_key(seed, xxh3(std::as_bytes(std::span(parameter.name))));
  const int64_t n = stored_count(parameter);
  const auto make = [&](int64_t begin, int64_t length, float* out) {
    std::fill_n(out, length, parameter.init == Init::ones ? 1.0f : 0.0f);
    if (parameter.init != Init::ones && parameter.init != Init::zeros) draw(parameter, key, begin, length, out);
  };
  if (!state.weights().device()) {
#pragma omp parallel for schedule(static) if (n > kWorthATeam)
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      float block[kBlock];
      const int64_t length = std::min(kBlock, n - begin);
      make(begin, length, block);
      store(state, parameter.offset + begin, block, length);
    }
    return;
  }
  // Few copies to the device, which the host waits for.
  constexpr int64_t kPiece = int64_t{1} << 20;
  std::vector<float> values(static_cast<size_t>(std::min(n, kPiece)));
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t end = std::min(kPiece, n - at);
#pragma omp parallel for schedule(static) if (end > kWorthATeam)
    for (int64_t begin = 0; begin < end; begin += kBlock)
      make(at + begin, std::min(kBlock, end - begin), values.data() + begin);
    store(state, parameter.offset + at, values.data(), end);
  }
}

}  // namespace

ParameterRange values_of(const StateKind& state, const Parameter& parameter, ParameterRange range) {
  if (state.extent == StateExtent::element) return range;
  const int64_t width = parameter.box.row_width(), rows = parameter.box.count[0];
  const auto first_row = [&](int64_t element) { return std::min((element + width - 1) / width, rows); };
  return {first_row(range.begin), first_row(range.end)};
}

int64_t value_count(const StateKind& state, const Parameter& parameter) {
  return state.extent == StateExtent::element ? parameter.count() : parameter.box.count[0];
}

TrainingState::TrainingState(const ParameterTable& table, DType dtype, bool trains, KeptState kept, Device& device)
    : kept_(std::move(kept)), trains_(trains), reader_(std::make_unique<PieceReader>(device)) {
  require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f64, ErrorKind::config,
          "weights cannot be {}; use f32, bf16 or f16", name_of(dtype));
  assert(!kept_.owned.empty() || !(kept_.gradients || kept_.weights));
  int64_t place = 0;
  for (const ParameterRange& range : kept_.owned)
    places_.push_back(std::exchange(place, place + range.end - range.begin));
  Arena measure, measure_passing;
  (void)Arrays(measure, measure_passing, table, dtype, trains, kept_);
  arena_ = Arena(measure.peak(), device);
  if (measure_passing.peak() > 0)
    passing_ = Arena(measure_passing.peak(), held_bytes(table, dtype, trains, kept_), device);
  Arrays arrays(arena_, passing_, table, dtype, trains, kept_);
  weights_ = arrays.weights;
  remainder_ = arrays.remainder;
  gradients_ = arrays.gradients;
  sums_ = arrays.sums;
  states_ = std::move(arrays.states);
  if (kept_.weights) Arena::set_sparse(weights_);
  if (kept_.gradients && !gradients_.empty()) Arena::set_sparse(gradients_);
  if (trains && table.sums_twice()) {  // the embedding's own sum of the tied matrix: a row for each token of the step
    Arena::set_sparse(gradients_.rows_slice(table.trained_count(), table.gradient_count() - table.trained_count()));
  }
}

size_t TrainingState::bytes_for(const ParameterTable& table, DType dtype, bool trains, const KeptState& kept) {
  Arena measure, passing;
  (void)Arrays(measure, passing, table, dtype, trains, kept);
  return measure.peak() + held_bytes(table, dtype, trains, kept);
}

void TrainingState::read_master(const Parameter& parameter, std::span<float> out) const {
  check_size("read_master", parameter, out.size());
  read_weights(parameter.offset, out);
}

void TrainingState::read_weights(int64_t first, std::span<float> out) const {
  const auto n = static_cast<int64_t>(out.size());
  // Takes f32 values of a run that begins at element `begin` to their places.
  const auto read_f32 = [&](int64_t begin, ConstView values) {
    reader_->read(values, {}, [&](int64_t at, ConstView piece, ConstView) {
      std::ranges::copy(piece.values<float>(), out.begin() + (begin - first) + at);
    });
  };
  switch (weights_.dtype()) {
    case DType::bf16:
      return for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t place) {
        const auto take = [&](int64_t at, ConstView high, ConstView low) {
          join(high.values<bf16_t>(), low.values<int16_t>(), out.data() + (begin - first) + at);
        };
        reader_->read(weights_.rows_slice(begin, count), remainder_.rows_slice(place, count), take);
      });
    case DType::f16:
      return for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t place) {
        read_f32(begin, remainder_.rows_slice(place, count));
      });
    case DType::f64:
      return reader_->read(weights_.rows_slice(first, n), {}, [&](int64_t at, ConstView piece, ConstView) {
        std::ranges::transform(piece.values<double>(), out.begin() + at,
                               [](double x) { return static_cast<float>(x); });
      });
    default:
      const auto read = [&](int64_t begin, int64_t count, int64_t) {
        read_f32(begin, weights_.rows_slice(begin, count));
      };
      shards_weights() ? for_owned(first, first + n, read) : read(first, n, first);
  }
}

View TrainingState::owned_remainder(int64_t count, int64_t place) {
  return remainder_.empty() ? remainder_ : remainder_.rows_slice(place, count);
}

std::vector<View> TrainingState::replicated() {
  std::vector<View> arrays{weights_, remainder_};
  for (const StateArray& state : states_) arrays.push_back(state.values);
  return arrays;
}

const StateArray* TrainingState::find(std::string_view name) const {
  const auto found = std::ranges::find(states_, name, [](const StateArray& state) { return state.kind.name; });
  return found == states_.end() ? nullptr : &*found;
}

ConstView TrainingState::state(std::string_view name) const {
  const StateArray* const found = find(name);
  return found ? ConstView(found->values) : ConstView();
}

/// run(first value, count, place) for what is held of [first, first + count).
template <class Run>
void TrainingState::for_held(std::string_view name, const Parameter& parameter, int64_t first, int64_t count,
                             Run run) const {
  const StateArray* const state = find(name);
  if (!state) return;
  const auto before = [](const StateArray::Held& held, std::pair<int64_t, int64_t> key) {
    return std::pair(held.parameter, held.first + held.count) <= key;
  };
  auto held = std::lower_bound(state->held.begin(), state->held.end(), std::pair(parameter.offset, first), before);
  for (; held != state->held.end() && held->parameter == parameter.offset && held->first < first + count; ++held) {
    const int64_t begin = std::max(first, held->first), end = std::min(first + count, held->first + held->count);
    run(begin, end - begin, held->place + begin - held->first);
  }
}

View TrainingState::state(std::string_view name, const Parameter& parameter, int64_t first, int64_t count) {
  View found;
  for_held(name, parameter, first, count, [&](int64_t, int64_t n, int64_t place) {
    assert(n == count);
    found = find(name)->values.rows_slice(place, n);
  });
  assert(!found.empty());
  return found;
}

void TrainingState::read_state(std::string_view name, const Parameter& parameter, int64_t first,
                               std::span<float> out) const {
  const auto read = [&](int64_t begin, int64_t count, int64_t place) {
    reader_->read(find(name)->values.rows_slice(place, count), {}, [&](int64_t at, ConstView piece, ConstView) {
      std::ranges::copy(piece.values<float>(), out.begin() + (begin - first) + at);
    });
  };
  for_held(name, parameter, first, static_cast<int64_t>(out.size()), read);
}

void TrainingState::write_state(std::string_view name, const Parameter& parameter, int64_t first,
                                std::span<const float> values) {
  const auto write = [&](int64_t begin, int64_t count, int64_t place) {
    write_values<float>(find(name)->values.rows_slice(place, count),
                        [&](auto to) { std::copy_n(values.data() + (begin - first), count, to.begin()); });
  };
  for_held(name, parameter, first, static_cast<int64_t>(values.size()), write);
}

bool TrainingState::keeps_some(std::string_view name, const Parameter& parameter, int64_t first, int64_t count) const {
  bool some = false;
  for_held(name, parameter, first, count, [&](int64_t, int64_t, int64_t) { some = true; });
  return some;
}

void TrainingState::write_master(const Parameter& parameter, std::span<const float> values) {
  check_size("write_master", parameter, values.size());
  write_weights(parameter.offset, values);
  clear_padding(parameter);
}

void TrainingState::write_weights(int64_t first, std::span<const float> values) {
  store(*this, first, values.data(), static_cast<int64_t>(values.size()));
}

void TrainingState::clear_padding(const Parameter& parameter) {
  const int64_t n = stored_count(parameter);
  const std::vector<float> zeros(static_cast<size_t>(std::min(kBlock, parameter.count() - n)));
  for (int64_t at = n; at < parameter.count(); at += kBlock) {
    store(*this, parameter.offset + at, zeros.data(), std::min(kBlock, parameter.count() - at));
  }
}

void initialize(TrainingState& state, const ParameterTable& table, uint64_t seed) {
  const auto zero_weights = [&](int64_t begin, int64_t count, int64_t) {
    zero(state.weights().rows_slice(begin, count));
  };
  state.for_owned(0, table.flat_count(),
                  [&](int64_t, int64_t count, int64_t place) { zero(state.owned_remainder(count, place)); });
  state.shards_weights() ? state.for_owned(0, table.flat_count(), zero_weights) : zero(state.weights());
  for (const Parameter& parameter : table.all())
    if (parameter.init != Init::zeros) fill(state, parameter, seed);
}

void initialize_adapters(TrainingState& state, const ParameterTable& table, uint64_t seed) {
  for (const Parameter& parameter : table.all())
    if (is_adapter(parameter.name)) fill(state, parameter, seed);
}

}  // namespace trireme
