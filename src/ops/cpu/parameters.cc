// Operators on flat arrays: add, cast, zero, squared norm.

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/highway_targets.h"
#include "ops/cpu/team.h"
#include "ops/element_sum.h"
#include "tensor/f16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/parameters.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/cpu/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::HWY_NAMESPACE {

void add_range(ConstView x, View y, Range range) {
  const float* in = x.as<float>() + range.begin;
  float* out = y.as<float>() + range.begin;
  for_each_vector(range.end - range.begin, [&](int64_t i, auto lanes) HWY_ATTR {
    store(hn::Add(load_streaming(out + i, lanes), load_streaming(in + i, lanes)), out + i, lanes);
  });
}

template <class T>
void sum_parts(ConstView parts, View y, Range range) {
  const int64_t n = parts.rows(), count = y.count();
  const T* in = parts.as<T>() + range.begin;
  T* out = y.as<T>() + range.begin;
  for_each_vector(range.end - range.begin, [&](int64_t i, auto lanes) HWY_ATTR {
    VecF32 sum = load(in + i, lanes);
    for (int64_t p = 1; p < n; ++p) sum = hn::Add(sum, load(in + p * count + i, lanes));
    store(sum, out + i, lanes);
  });
}

void sum_parts_range(ConstView parts, View y, Range range) {
  y.dtype() == DType::bf16 ? sum_parts<bf16_t>(parts, y, range) : sum_parts<float>(parts, y, range);
}

template <class From, class To>
void convert(ConstView x, View y, Range range) {
  const From* in = x.as<From>() + range.begin;
  To* out = y.as<To>() + range.begin;
  for_each_vector(range.end - range.begin,
                  [&](int64_t i, auto lanes) HWY_ATTR { store(load_streaming(in + i, lanes), out + i, lanes); });
}

/// Between the two types that differ.
void cast_range(ConstView x, View y, Range range) {
  x.dtype() == DType::f32 ? convert<float, bf16_t>(x, y, range) : convert<bf16_t, float>(x, y, range);
}

constexpr size_t kPartials = 16;

/// One chunk of squared_norms(): 16 partial sums in vectors of whatever length.
template <size_t... k>
HWY_INLINE double chunk_squares(const float* x, int64_t n, std::index_sequence<k...>) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow_tag;
  constexpr size_t kLanes64 = HWY_LANES(double);
  const auto square = [&](const float* p) HWY_ATTR {
    const auto v = hn::PromoteTo(d, hn::LoadU(narrow_tag, p));
    return hn::Mul(v, v);
  };
  hn::Vec<decltype(d)> sums[] = {(static_cast<void>(k), hn::Zero(d))...};
  int64_t i = 0;
  for (; i + static_cast<int64_t>(kPartials) <= n; i += kPartials) {
    prefetch_ahead(x + i);
    ((sums[k] = hn::Add(sums[k], square(x + i + k * kLanes64))), ...);
  }
  double partials[kPartials];
  (hn::StoreU(sums[k], d, partials + k * kLanes64), ...);
  for (size_t j = 0; i < n; ++i, ++j) partials[j] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double sum = 0;
  for (double partial : partials) sum += partial;
  return sum;
}

double chunk_squared_norm(const float* x, int64_t n) {
  return chunk_squares(x, n, std::make_index_sequence<kPartials / HWY_LANES(double)>());
}

}  // namespace trireme::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme {

HWY_EXPORT(add_range);
HWY_EXPORT(sum_parts_range);
HWY_EXPORT(cast_range);
HWY_EXPORT(chunk_squared_norm);

namespace {
constexpr int64_t kUnit = 64;  // elements: shares begin at cache lines, whatever the type
}

void CpuOps::do_sum_parts(Context& context, ConstView parts, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(sum_parts_range)(parts, y, share_of(y.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_add(Context& context, ConstView x, View y) {
  for_each_part(context.threads, [&](int part) {
    HWY_DYNAMIC_DISPATCH(add_range)(x, y, share_of(x.count(), part, context.threads, kUnit));
  });
}

void CpuOps::do_cast(Context& context, ConstView x, View y) {
  for_each_part(context.threads, [&](int part) {
    const Range range = share_of(x.count(), part, context.threads, kUnit);
    if (x.dtype() != y.dtype()) return HWY_DYNAMIC_DISPATCH(cast_range)(x, y, range);
    const size_t size = size_of(x.dtype()), begin = static_cast<size_t>(range.begin) * size;
    std::memcpy(static_cast<char*>(y.data()) + begin, static_cast<const char*>(x.data()) + begin,
                static_cast<size_t>(range.end - range.begin) * size);
  });
}

void CpuOps::do_zero(Context& context, View x) {
  // The C library writes past the caches where the share is larger than they are.
  for_each_part(context.threads, [&](int part) {
    const Range range = share_of(static_cast<int64_t>(x.bytes()), part, context.threads, kUnit);
    std::memset(static_cast<char*>(x.data()) + range.begin, 0, static_cast<size_t>(range.end - range.begin));
  });
}

namespace {

/// Waking threads for less takes longer than the work.
constexpr int64_t kWorthATeam = 1 << 15;

int team_for(const Context& context, ConstView x) { return x.count() < kWorthATeam ? 1 : context.threads; }

/// factor * x of some rows to their place.
template <class T>
void place(ConstView x, const RowPattern& pattern, int64_t column, float factor, View y, Range rows) {
  const int64_t width = x.shape()[1];
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    const T* from = x.as<T>() + row * width;
    T* to = y.as<T>() + pattern.place(row) * y.shape()[1] + column;
    if constexpr (std::is_same_v<T, float>) {
      for (int64_t i = 0; i < width; ++i) to[i] = factor * from[i];
    } else {
      for (int64_t i = 0; i < width; ++i) to[i] = to_bf16(factor * to_float(from[i]));
    }
  }
}

}  // namespace

void CpuOps::do_place_rows(Context& context, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                           View y) {
  const int parts = team_for(context, x);
  for_each_part(parts, [&](int part) {
    const Range rows = share_of(x.rows(), part, parts);
    x.dtype() == DType::bf16 ? place<bf16_t>(x, pattern, column, factor, y, rows)
                             : place<float>(x, pattern, column, factor, y, rows);
  });
}

void CpuOps::do_take_rows(Context& context, ConstView x, const RowPattern& pattern, int64_t column, float factor,
                          View y, Write write) {
  const int64_t width = y.shape()[1];
  const int parts = team_for(context, y);
  for_each_part(parts, [&](int part) {
    const Range rows = share_of(y.rows(), part, parts);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const float* from = x.as<float>() + pattern.place(row) * x.shape()[1] + column;
      float* to = y.as<float>() + row * width;
      if (write == Write::overwrite) {
        for (int64_t i = 0; i < width; ++i) to[i] = factor * from[i];
      } else {
        for (int64_t i = 0; i < width; ++i) to[i] += factor * from[i];
      }
    }
  });
}

void CpuOps::do_squared_norms(Context& context, ConstView x, View values) {
  for_each_part(context.threads, [&](int part) {
    const Range share = share_of(values.count(), part, context.threads);
    for (int64_t i = share.begin; i < share.end; ++i) {
      const int64_t at = i * kNormChunk;
      values.as<double>()[i] =
          HWY_DYNAMIC_DISPATCH(chunk_squared_norm)(x.as<float>() + at, std::min(kNormChunk, x.count() - at));
    }
  });
}

void CpuOps::do_element_sums(Context& context, ConstView x, ConstView low, const ElementPlaces& places, View sums) {
  constexpr int64_t kPiece = 4096;
  const int64_t row = places.extents[ElementPlaces::kDims - 1];
  /// Elements of one row.
  const auto sum_run = [&](int64_t first, int64_t count) {
    float values[kPiece];
    const float* from = values;
    if (x.dtype() == DType::f32) {
      from = x.as<float>() + first;
    } else if (x.dtype() == DType::f16) {
      for (int64_t i = 0; i < count; ++i) values[i] = to_float(x.as<f16_t>()[first + i]);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const auto rest = low.empty() ? 0 : static_cast<uint32_t>(int32_t{low.as<int16_t>()[first + i]});
        values[i] = std::bit_cast<float>((uint32_t{x.as<bf16_t>()[first + i].bits} << 16) + rest);
      }
    }
    return element_sum(places.key, static_cast<uint64_t>(places.of(first)), {from, static_cast<size_t>(count)});
  };
  for_each_part(context.threads, [&](int part) {
    const Range share = share_of(sums.count(), part, context.threads);
    for (int64_t chunk = share.begin; chunk < share.end; ++chunk) {
      const int64_t end = std::min((chunk + 1) * kNormChunk, x.count());
      uint64_t sum = 0;
      for (int64_t i = chunk * kNormChunk, length = 0; i < end; i += length) {
        length = std::min({kPiece, end - i, row - i % row});
        sum += sum_run(i, length);
      }
      sums.as<int64_t>()[chunk] = static_cast<int64_t>(sum);
    }
  });
}

}  // namespace trireme
#endif
