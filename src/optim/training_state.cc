#include "optim/training_state.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

namespace trireme {
namespace {

constexpr int64_t kBlock = 4096;          // elements a thread makes at a time: 16 KiB of f32, half an L1 cache
constexpr int64_t kWorthATeam = 1 << 16;  // below, waking threads costs more than they save

/// Takes the arrays from an arena that measures or that holds them.
struct Arrays {
  View weights, remainder, gradients, moment1, moment2;
  Arrays(Arena& arena, const ParameterTable& table, DType dtype, bool moments,
         const std::vector<ParameterRange>& owned) {
    const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
    int64_t kept = owned.empty() ? table.flat_count() : 0;
    for (const ParameterRange& range : owned) kept += range.end - range.begin;
    weights = arena.take(dtype, Shape{table.flat_count()});
    if (dtype == DType::bf16) remainder = arena.take(DType::i16, Shape{kept});
    if (!moments) return;
    gradients = arena.take(wide, Shape{table.gradient_count()});
    moment1 = arena.take(wide, Shape{kept});
    moment2 = arena.take(wide, Shape{kept});
  }
};

void join(std::span<const bf16_t> high, std::span<const int16_t> low, float* out) {
  for (size_t i = 0; i < high.size(); ++i) {
    const uint32_t bits = (uint32_t{high[i].bits} << 16) + static_cast<uint32_t>(int32_t{low[i]});
    std::memcpy(&out[i], &bits, sizeof bits);
  }
}

/// What the nearest bf16 values leave of values.
void split(const float* values, std::span<int16_t> low) {
  for (size_t i = 0; i < low.size(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &values[i], sizeof bits);
    low[i] = static_cast<int16_t>(bits - (uint32_t{to_bf16_master(values[i]).bits} << 16));
  }
}

/// Sets elements [first, first + n) of the flat weights.
void store(const TrainingState& state, int64_t first, const float* values, int64_t n) {
  const View weights = state.weights().rows_slice(first, n);
  switch (state.weights().dtype()) {
    case DType::bf16:
      std::transform(values, values + n, HostWriter<bf16_t>(weights).get().begin(), to_bf16_master);
      state.for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t place) {
        split(values + (begin - first), HostWriter<int16_t>(state.remainder().rows_slice(place, count)).get());
      });
      return;
    case DType::f64:
      std::copy(values, values + n, HostWriter<double>(weights).get().begin());
      return;
    default:
      std::copy(values, values + n, HostWriter<float>(weights).get().begin());
  }
}

int64_t stored_count(const Parameter& parameter) { return parameter.stored_shape.count(); }

/// Normal values of the parameter's stored elements [first, first + n).
void draw(const Parameter& parameter, uint64_t key, int64_t first, int64_t n, float* out) {
  const Box box = parameter.stored(), all = whole_box(parameter.global_shape);
  const int last = box.dims() - 1;
  for (int64_t done = 0; done < n;) {
    const Shape index = index_at(box, first + done);
    const auto element = static_cast<uint64_t>(offset_of(all, index));
    const int64_t length = std::min(n - done, box.end(last) - index[last]);
    for (int64_t i = 0; i < length; ++i)
      out[done + i] = static_cast<float>(parameter.init_std * normal_at(key, element + static_cast<uint64_t>(i)));
    done += length;
  }
}

/// In pieces, none of which takes much memory where they are copied.
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

}  // namespace

TrainingState::TrainingState(const ParameterTable& table, DType dtype, bool moments, std::vector<ParameterRange> owned,
                             Device& device)
    : owned_(std::move(owned)) {
  require(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64, ErrorKind::config,
          "weights cannot be {}; use f32 or bf16", name_of(dtype));
  int64_t place = 0;
  for (const ParameterRange& range : owned_) places_.push_back(std::exchange(place, place + range.end - range.begin));
  arena_ = Arena(bytes_for(table, dtype, moments, owned_), device);
  const Arrays arrays(arena_, table, dtype, moments, owned_);
  weights_ = arrays.weights;
  remainder_ = arrays.remainder;
  gradients_ = arrays.gradients;
  moment1_ = arrays.moment1;
  moment2_ = arrays.moment2;
  if (moments && table.tied()) {  // the embedding's own sum of the tied matrix: a row for each token of the step
    Arena::set_sparse(gradients_.rows_slice(table.flat_count(), table.gradient_count() - table.flat_count()));
  }
}

size_t TrainingState::bytes_for(const ParameterTable& table, DType dtype, bool moments,
                                const std::vector<ParameterRange>& owned) {
  Arena measure;
  (void)Arrays(measure, table, dtype, moments, owned);
  return measure.peak();
}

size_t TrainingState::bytes() const { return arena_.peak(); }

void TrainingState::read_master(const Parameter& parameter, std::span<float> out) const {
  check_size("read_master", parameter, out.size());
  read_weights(parameter.offset, out);
}

void TrainingState::read_weights(int64_t first, std::span<float> out) const {
  const auto n = static_cast<int64_t>(out.size());
  switch (weights_.dtype()) {
    case DType::bf16:
      return for_owned(first, first + n, [&](int64_t begin, int64_t count, int64_t place) {
        join(HostValues<bf16_t>(weights_.rows_slice(begin, count)).get(),
             HostValues<int16_t>(remainder_.rows_slice(place, count)).get(), out.data() + (begin - first));
      });
    case DType::f64:
      std::ranges::transform(HostValues<double>(weights_.rows_slice(first, n)).get(), out.begin(),
                             [](double x) { return static_cast<float>(x); });
      return;
    default:
      std::ranges::copy(HostValues<float>(weights_.rows_slice(first, n)).get(), out.begin());
  }
}

void TrainingState::read_moment(ConstView moment, int64_t first, std::span<float> out) const {
  for_owned(first, first + static_cast<int64_t>(out.size()), [&](int64_t begin, int64_t count, int64_t place) {
    std::ranges::copy(HostValues<float>(moment.rows_slice(place, count)).get(), out.begin() + (begin - first));
  });
}

void TrainingState::write_moment(View moment, int64_t first, std::span<const float> values) const {
  for_owned(first, first + static_cast<int64_t>(values.size()), [&](int64_t begin, int64_t count, int64_t place) {
    std::copy_n(values.data() + (begin - first), count,
                HostWriter<float>(moment.rows_slice(place, count)).get().begin());
  });
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
  for (const View& array : {state.weights(), state.remainder()}) zero(array);
  for (const Parameter& parameter : table.all()) {
    if (parameter.init == Init::zeros) continue;
    const uint64_t key = mix_key(seed, xxh3(std::as_bytes(std::span(parameter.name))));
    const int64_t n = stored_count(parameter);
#pragma omp parallel for schedule(static) if (n > kWorthATeam)
    for (int64_t begin = 0; begin < n; begin += kBlock) {
      float block[kBlock];
      const int64_t length = std::min(kBlock, n - begin);
      std::fill_n(block, length, 1.0f);
      if (parameter.init == Init::normal) draw(parameter, key, begin, length, block);
      store(state, parameter.offset + begin, block, length);
    }
  }
}

uint64_t parameter_hash(const TrainingState& state, const ParameterTable& table) {
  const auto& parameters = table.all();
  std::vector<uint64_t> hashes(2 * parameters.size());
#pragma omp parallel for schedule(dynamic) if (table.flat_count() > kWorthATeam)
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto hash_of = [&](View flat) {
      if (flat.empty()) return uint64_t{0};
      const HostBytes bytes(flat.rows_slice(parameters[i].offset, stored_count(parameters[i])));
      return xxh3(bytes.get());
    };
    hashes[2 * i] = hash_of(state.weights());
    hashes[2 * i + 1] = state.is_sharded() ? 0 : hash_of(state.remainder());
  }
  return xxh3(std::as_bytes(std::span(hashes)));
}

}  // namespace trireme
