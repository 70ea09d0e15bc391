#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/reference/reference_ops.h"

namespace trireme {
namespace {

float value(ConstView x, int64_t i) {
  return x.dtype() == DType::bf16 ? to_float(x.as<bf16_t>()[i]) : x.as<float>()[i];
}

void set(View y, int64_t i, float value) {
  if (y.dtype() == DType::bf16) {
    y.as<bf16_t>()[i] = to_bf16(value);
  } else {
    y.as<float>()[i] = value;
  }
}

bool is_marked(ConstView map, int64_t row) {
  return (static_cast<uint64_t>(map.as<int64_t>()[row / 64]) >> (row % 64) & 1) != 0;
}

}  // namespace

void ReferenceOps::do_wire_cast(Context&, ConstView x, View y) {
  for (int64_t i = 0; i < x.count(); ++i) set(y, i, value(x, i));
}

void ReferenceOps::do_sum_contributions(Context&, std::span<const ConstView> parts, View own, View sum) {
  for (int64_t i = 0; i < sum.count(); ++i) {
    set(sum, i, own.as<float>()[i]);
    const float rounded = value(sum, i);
    const auto term = [&](ConstView part) { return part.empty() ? rounded : value(part, i); };
    float total = term(parts[0]);
    for (const ConstView& part : parts.subspan(1)) total += term(part);
    set(sum, i, total);
    own.as<float>()[i] = value(sum, i);
  }
}

void ReferenceOps::do_mark_rows(Context&, ConstView x, View map) {
  std::ranges::fill(map.values<int64_t>(), 0);
  for (int64_t i = 0; i < x.count(); ++i) {
    uint32_t bits;
    std::memcpy(&bits, &x.as<float>()[i], sizeof bits);
    const int64_t row = i / x.width();
    int64_t& word = map.as<int64_t>()[row / 64];
    if (bits != 0) word = static_cast<int64_t>(static_cast<uint64_t>(word) | uint64_t{1} << (row % 64));
  }
}

void ReferenceOps::do_pack_rows(Context&, View x, ConstView map) {
  int64_t packed = 0;
  for (int64_t row = 0; row < x.rows(); ++row) {
    if (!is_marked(map, row)) continue;
    std::copy_n(x.rows_slice(row, 1).as<float>(), x.width(), x.rows_slice(packed++, 1).as<float>());
  }
}

void ReferenceOps::do_unpack_rows(Context&, View x, ConstView map) {
  const std::vector<float> packed(x.as<float>(), x.as<float>() + x.count());
  auto from = packed.begin();
  for (int64_t row = 0; row < x.rows(); ++row) {
    float* to = x.rows_slice(row, 1).as<float>();
    std::fill_n(to, x.width(), 0.0f);
    if (!is_marked(map, row)) continue;
    std::copy_n(from, x.width(), to);
    from += x.width();
  }
}

}  // namespace trireme
