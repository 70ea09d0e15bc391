#include "ops/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace trireme {
namespace {

double count(int64_t n) { return static_cast<double>(n); }

double bytes_of(std::initializer_list<ConstView> views) {
  double bytes = 0;
  for (const ConstView& v : views) bytes += v.empty() ? 0 : count(static_cast<int64_t>(v.bytes()));
  return bytes;
}

/// Query-key pairs of all heads.
double pairs(const AttentionShape& s) {
  double sum = 0;
  const HostValues<int32_t> values(s.offsets);
  const std::span<const int32_t> offset = values.get();
  for (size_t i = 0; i + 1 < offset.size(); ++i) {
    const double n = offset[i + 1] - offset[i], window = s.window > 0 ? std::min(n, count(s.window)) : n;
    sum += s.causal ? window * (window + 1) / 2 + (n - window) * window : n * n;
  }
  return sum * s.heads();
}

}  // namespace

OpTimer::OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved)
    : recorder_(recorder && recorder->recording() ? recorder : nullptr) {
  if (recorder_) call_ = {.op = std::string(op), .start = recorder_->mark(), .end = {}, .bytes = bytes_of(moved)};
}

OpTimer::OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved,
                 const ProductSize& size)
    : OpTimer(recorder, op, moved) {
  if (!recorder_) return;
  call_.op = fmt::format("{} {}->{}", op, size.in, size.out);
  call_.flops = 2.0 * count(size.rows) * count(size.in) * count(size.out);
}

OpTimer::OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved,
                 const AttentionShape& shape, int products)
    : OpTimer(recorder, op, moved) {
  if (!recorder_) return;
  call_.flops = 2.0 * products * pairs(shape) * shape.head_dim;
  call_.start = recorder_->mark();  // reading a device's offsets took time
}

OpTimer::~OpTimer() {
  if (!recorder_) return;
  try {
    call_.end = recorder_->mark();
    recorder_->add(std::move(call_));
  } catch (const Error&) {  // of the device, whose next call fails, too
  }
}

}  // namespace trireme
