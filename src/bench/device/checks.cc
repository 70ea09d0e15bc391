#include "bench/device/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/rng.h"
#include "tensor/dtype.h"

namespace trireme::device_check {
namespace {

constexpr int64_t kBlock = 1 << 16;  // of values that are drawn: longer tensors repeat them

float rounded(float value, DType dtype) { return dtype == DType::bf16 ? to_float(to_bf16(value)) : value; }

void write(std::byte* at, DType dtype, double value) {
  const auto store = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  if (dtype == DType::bf16) return store(to_bf16(static_cast<float>(value)));
  store(static_cast<float>(value));
}

/// Enough for any call of these sizes.
size_t scratch_bytes(const Ops& ops, const Sizes& sizes, DType dtype, int threads) {
  const Spec& spec = sizes.spec;
  AttentionShape shape = sizes.attention();
  shape.equal_length = sizes.sequence;
  const int64_t widest = std::max(4 * spec.width, spec.mlp_in_width());
  size_t most = 0;
  for (const int64_t length : {int64_t{0}, sizes.sequence}) {
    shape.equal_length = length;
    const CallSizes layer{.dtype = dtype,
                          .rows = sizes.rows(),
                          .width = widest,
                          .weight_count = widest * spec.width,
                          .added_count = widest * spec.width,
                          .attention = shape,
                          .threads = threads};
    CallSizes head = layer;
    head.width = spec.vocabulary_rows, head.inputs = spec.width;
    head.weight_count = head.added_count = spec.vocabulary_rows * spec.width;
    most = std::max({most, ops.scratch_bytes(layer), ops.scratch_bytes(head)});
  }
  return most;
}

}  // namespace

AttentionShape Sizes::attention() const {
  AttentionShape shape;
  shape.kv_heads = static_cast<int>(spec.kv_heads());
  shape.group = static_cast<int>(spec.group());
  shape.head_dim = static_cast<int>(spec.head_dim());
  shape.scale = spec.score_scale();
  return shape;
}

Side::Side(Ops& of, int threads, DType type, DType values, const Sizes& all)
    : sizes(all), ops(of), dtype(type), values_(values), scratch_(scratch_bytes(of, all, type, threads), of.device()) {
  context = {threads, &scratch_, &of.device().stream()};
}

void Side::begin() {
  finish();
  outputs.clear();
  memory_.clear();
}

View Side::empty(DType type, Shape shape) {
  const size_t bytes = std::max<size_t>(64, static_cast<size_t>(shape.count()) * size_of(type));
  return memory_.emplace_back(bytes, ops.device()).take(type, shape);
}

View Side::place(DType type, Shape shape, std::span<const std::byte> bytes) {
  const View view = empty(type, shape);
  context.stream->copy(ConstView(bytes.data(), type, shape), view);
  return view;
}

View Side::filled(DType type, Shape shape, uint64_t seed, double scale, double shift) {
  const View view = empty(type, shape);
  const int64_t n = std::min(kBlock, view.count());
  std::vector<std::byte> block(static_cast<size_t>(n) * size_of(type));
  RandomStream random(mix_key(seed));
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<float>(shift + scale * (2 * random.uniform() - 1));
    write(block.data() + static_cast<size_t>(i) * size_of(type), type, rounded(value, values_));
  }
  const ConstView values(block.data(), type, {n});
  const View flat = view.reshape({view.count()});
  for (int64_t at = 0; at < view.count(); at += kBlock) {
    const int64_t length = std::min(kBlock, view.count() - at);
    context.stream->copy(values.rows_slice(0, length), flat.rows_slice(at, length));
  }
  return view;
}

View Side::input(Shape shape, uint64_t seed, double scale, double shift) {
  return filled(dtype, shape, seed, scale, shift);
}
View Side::input_f32(Shape shape, uint64_t seed, double scale, double shift) {
  return filled(DType::f32, shape, seed, scale, shift);
}

View Side::ids(DType type, Shape shape, int64_t bound) {
  std::vector<std::byte> bytes(static_cast<size_t>(shape.count()) * size_of(type));
  RandomStream random(7);
  for (size_t i = 0; i < bytes.size(); i += size_of(type)) {
    const auto id = static_cast<int64_t>(random.below(static_cast<uint64_t>(bound)));
    const auto narrow = static_cast<int32_t>(id);
    type == DType::i64 ? std::memcpy(&bytes[i], &id, sizeof id) : std::memcpy(&bytes[i], &narrow, sizeof narrow);
  }
  return place(type, shape, bytes);
}

void Side::keep(std::string name, ConstView tensor) {
  const HostBytes bytes(tensor);
  outputs.push_back({std::move(name), tensor.dtype(), {bytes.get().begin(), bytes.get().end()}});
}

double Side::Output::at(size_t i) const {
  const std::byte* const from = bytes.data() + i * size_of(dtype);
  const auto load = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (dtype) {
    case DType::bf16:
      return static_cast<double>(to_float(load(bf16_t())));
    case DType::f32:
      return static_cast<double>(load(float()));
    case DType::f64:
      return load(double());
    case DType::i16:
      return load(int16_t());
    case DType::i32:
      return load(int32_t());
    default:
      return static_cast<double>(load(int64_t()));
  }
}

Difference difference(const Side& got, const Side& want) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  Difference found;
  for (size_t n = 0; n < want.outputs.size(); ++n) {
    const Side::Output &g = got.outputs[n], &w = want.outputs[n];
    double squares = 0, differences = 0;
    for (size_t i = 0; i < w.size(); ++i) squares += w.at(i) * w.at(i);
    const double root = std::sqrt(squares / static_cast<double>(w.size()));
    for (size_t i = 0; i < w.size(); ++i) {
      const double a = g.at(i), b = w.at(i);
      if (a == b) continue;
      const double apart = std::isnan(a - b) ? kInfinite : std::abs(a - b) / (root + std::abs(b));
      differences += (a - b) * (a - b);
      if (apart <= found.worst) continue;
      found.worst = apart;
      found.text = fmt::format("{}[{}] is {:.6g}, not {:.6g}", w.name, i, a, b);
    }
    const double typical = differences == 0 ? 0 : std::sqrt(differences / squares);
    found.typical = std::max(found.typical, std::isnan(typical) ? kInfinite : typical);
  }
  return found;
}

std::string other_bits(const Side& got, const Side& want) {
  for (size_t n = 0; n < want.outputs.size(); ++n) {
    const Side::Output &g = got.outputs[n], &w = want.outputs[n];
    const size_t width = size_of(w.dtype);
    size_t count = 0, first = 0;
    for (size_t i = w.size(); i-- > 0;) {
      if (std::memcmp(&g.bytes[i * width], &w.bytes[i * width], width) == 0) continue;
      ++count;
      first = i;
    }
    if (count > 0)
      return fmt::format("{}: {} of {} elements have other bits, the first is [{}]: {:.9g}, on the CPU {:.9g}", w.name,
                         count, w.size(), first, g.at(first), w.at(first));
  }
  return "";
}

}  // namespace trireme::device_check
