#include "optim/parameter_hash.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "ops/element_sum.h"
#include "tensor/f16.h"

namespace trireme {
namespace {

constexpr int64_t kPiece = 8192;          // elements per thread at a time: 32 KiB, fits the first-level cache
constexpr int64_t kWorthATeam = 1 << 16;  // below, waking threads costs more than they save

/// Elements [first, first + values.size()) of a box's array.
uint64_t run_hash(uint64_t key, const Box& whole, const Box& box, int64_t first, std::span<const float> values) {
  const int last = box.dims() - 1;
  uint64_t sum = 0;
  for (size_t done = 0; done < values.size();) {
    const Shape index = index_at(box, first + static_cast<int64_t>(done));
    // To the end of the run that is also contiguous in the complete tensor: the rest of it, or of a row.
    const bool whole_rows = box.row_width() == whole.row_width();
    const size_t left = values.size() - done;
    const size_t length = whole_rows ? left : std::min(left, static_cast<size_t>(box.end(last) - index[last]));
    sum += element_sum(key, static_cast<uint64_t>(offset_of(whole, index)), values.subspan(done, length));
    done += length;
  }
  return sum;
}

/// Hash of flat elements [first, first + count), which are elements [at, at + count) of the box: of their master values
/// if this rank has them. On the host.
uint64_t piece_hash(const TrainingState& state, int64_t first, int64_t count, uint64_t key, const Box& whole,
                    const Box& box, int64_t at) {
  const View weights = state.weights().rows_slice(first, count);
  if (weights.dtype() == DType::f32) return run_hash(key, whole, box, at, weights.values<float>());
  float values[kPiece];
  const std::span piece(values, static_cast<size_t>(count));
  const auto widen = [&](auto rounded) {
    std::ranges::transform(rounded, piece.begin(), [](auto value) { return to_float(value); });
  };
  if (!state.is_sharded() || weights.dtype() == DType::f64)
    state.read_weights(first, piece);
  else if (weights.dtype() == DType::bf16)
    widen(weights.values<bf16_t>());
  else
    widen(weights.values<f16_t>());
  return run_hash(key, whole, box, at, piece);
}

/// The places of a box in a tensor of this shape.
ElementPlaces places_of(uint64_t key, const Box& whole, const Box& box) {
  ElementPlaces places{.key = key, .first = offset_of(whole, box.begin)};
  int64_t stride = 1;
  for (int d = box.dims() - 1, to = ElementPlaces::kDims - 1; d >= 0; --d, --to) {
    places.extents[to] = box.count[d];
    places.strides[to] = stride;
    stride *= whole.count[d];
  }
  // Dims that are complete in the box continue the row of the one before.
  constexpr int kLast = ElementPlaces::kDims - 1;
  for (int d = kLast - 1; d >= 0 && places.strides[d] == places.extents[kLast]; --d)
    places.extents[kLast] *= std::exchange(places.extents[d], 1);
  return places;
}

}  // namespace

uint64_t parameter_key(std::string_view name) { return xxh3(std::as_bytes(std::span(name))); }

uint64_t box_hash(uint64_t key, const Shape& shape, const Box& box, std::span<const float> values) {
  assert(static_cast<int64_t>(values.size()) == box.elements());
  return run_hash(key, whole_box(shape), box, 0, values);
}

uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table) {
  assert(!state.shards_weights());
  assert(!state.weights().device());
  struct Piece {
    const Parameter* parameter;
    uint64_t key;
    int64_t at;
  };
  std::vector<Piece> pieces;
  for (const Parameter& parameter : table.all()) {
    const uint64_t key = parameter_key(parameter.name);
    for (int64_t at = 0; at < parameter.stored().elements(); at += kPiece) pieces.push_back({&parameter, key, at});
  }
  uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum) if (table.flat_count() > kWorthATeam)
  for (const auto& [parameter, key, at] : pieces) {
    const Box box = parameter->stored();
    sum += piece_hash(state, parameter->offset + at, std::min(kPiece, box.elements() - at), key,
                      whole_box(parameter->global_shape), box, at);
  }
  return sum;
}

uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table, Ops& ops) {
  if (!state.weights().device()) return parameter_hash(state, table);
  const ConstView weights = state.weights(), remainder = state.remainder();
  const bool with_remainders = !state.is_sharded() && !remainder.empty();
  const bool masters_apart = with_remainders && weights.dtype() == DType::f16;
  const auto chunks_of = [](const Parameter& parameter) {
    return (parameter.stored().elements() + kNormChunk - 1) / kNormChunk;
  };
  int64_t chunks = 0;
  for (const Parameter& parameter : table.all()) chunks += chunks_of(parameter);
  Arena measure;
  measure.take(DType::i64, {chunks});
  Arena memory(measure.peak(), ops.device());
  const View sums = memory.take(DType::i64, {chunks});
  Context context{.stream = &ops.device().stream()};
  int64_t next = 0;
  for (const Parameter& parameter : table.all()) {
    const Box box = parameter.stored();
    const auto part = [&](ConstView array) { return array.rows_slice(parameter.offset, box.elements()); };
    const ElementPlaces places = places_of(parameter_key(parameter.name), whole_box(parameter.global_shape), box);
    ops.element_sums(context, part(masters_apart ? remainder : weights),
                     with_remainders && !masters_apart ? part(remainder) : ConstView(), places,
                     sums.rows_slice(next, chunks_of(parameter)));
    next += chunks_of(parameter);
  }
  const HostValues<int64_t> values(sums);
  uint64_t sum = 0;
  for (const int64_t value : values.get()) sum += static_cast<uint64_t>(value);
  return sum;
}

}  // namespace trireme
