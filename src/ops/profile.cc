#include "ops/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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
  const int32_t* offset = s.offsets.as<int32_t>();
  for (int64_t i = 0; i + 1 < s.offsets.rows(); ++i) {
    const double n = offset[i + 1] - offset[i], window = s.window > 0 ? std::min(n, count(s.window)) : n;
    sum += s.causal ? window * (window + 1) / 2 + (n - window) * window : n * n;
  }
  return sum * s.heads();
}

}  // namespace

OpTimer::OpTimer(OpRecorder* recorder, std::string_view op, std::initializer_list<ConstView> moved)
    : recorder_(recorder && recorder->recording() ? recorder : nullptr) {
  if (recorder_) call_ = {std::string(op), recorder_->now(), 0, 0, bytes_of(moved)};
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
  if (recorder_) call_.flops = 2.0 * products * pairs(shape) * shape.head_dim;
}

OpTimer::~OpTimer() {
  if (!recorder_) return;
  call_.seconds = recorder_->now() - call_.start;
  recorder_->add(std::move(call_));
}

}  // namespace trireme
