#include "optim/parameter_hash.h"

#include <algorithm>
#include <cassert>
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

/// Of a state on another device than the host: read in long pieces, each hashed by all threads.
uint64_t hash_of_device(const TrainingState& state, const ParameterTable& table) {
  constexpr int64_t kBlock = int64_t{1} << 22;
  const View all = state.weights();
  const bool without_remainders = state.is_sharded() && size_of(all.dtype()) == 2;
  PieceReader reader(*all.device());
  std::vector<float> values;
  const auto read = [&](int64_t first) {
    if (!without_remainders) return state.read_weights(first, values);
    reader.read(all.rows_slice(first, std::ssize(values)), {}, [&](int64_t at, ConstView piece, ConstView) {
      const auto widen = [&](auto rounded) {
        std::ranges::transform(rounded, values.begin() + at, [](auto value) { return to_float(value); });
      };
      piece.dtype() == DType::bf16 ? widen(piece.values<bf16_t>()) : widen(piece.values<f16_t>());
    });
  };
  uint64_t sum = 0;
  for (const Parameter& parameter : table.all()) {
    const uint64_t key = parameter_key(parameter.name);
    const Box box = parameter.stored(), whole = whole_box(parameter.global_shape);
    for (int64_t block = 0; block < box.elements(); block += kBlock) {
      const int64_t length = std::min(kBlock, box.elements() - block);
      values.resize(static_cast<size_t>(length));
      read(parameter.offset + block);
#pragma omp parallel for schedule(static) reduction(+ : sum) if (length > kWorthATeam)
      for (int64_t at = 0; at < length; at += kPiece) {
        const auto n = static_cast<size_t>(std::min(kPiece, length - at));
        sum += run_hash(key, whole, box, block + at, std::span(values).subspan(static_cast<size_t>(at), n));
      }
    }
  }
  return sum;
}

}  // namespace

uint64_t parameter_key(std::string_view name) { return xxh3(std::as_bytes(std::span(name))); }

uint64_t box_hash(uint64_t key, const Shape& shape, const Box& box, std::span<const float> values) {
  assert(static_cast<int64_t>(values.size()) == box.elements());
  return run_hash(key, whole_box(shape), box, 0, values);
}

uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table) {
  assert(!state.shares_weights());
  if (state.weights().device()) return hash_of_device(state, table);
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

}  // namespace trireme
