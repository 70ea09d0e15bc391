#include "checkpoint/neox/states.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"

namespace trireme {
namespace {

constexpr double kFarApart = 1e-3;          // more than rounding makes of copies that were trained alike
constexpr int64_t kMostElements = 1 << 20;  // 4 MiB as f32

}  // namespace

void NeoxJoiner::read_box(const NeoxPiece& piece, const Box& box, const Parameter& own,
                          const std::function<void(int64_t, std::span<const float>)>& store) {
  for_each_run(overlap(box, own.stored()), box, own.box, [&](int64_t from, int64_t to, int64_t count) {
    for (int64_t done = 0; done < count; done += kMostElements) {
      buffer_.resize(static_cast<size_t>(std::min(count - done, kMostElements)));
      bytes_read_ += piece.source->read(piece.first + static_cast<uint64_t>(from + done), buffer_);
      store(to + done, buffer_);
    }
  });
}

void NeoxJoiner::join(const NeoxRule& rule, const Parameter& own, NeoxJoin how, std::span<const NeoxPiece> pieces,
                      const std::function<void(int64_t, std::span<const float>)>& store) {
  if (how == NeoxJoin::boxes || pieces.size() == 1) {
    for (size_t rank = 0; rank < pieces.size(); ++rank)
      read_box(pieces[rank], tables_[rank].find(rule.ours).box, own, store);
    return;
  }
  const auto count = static_cast<size_t>(own.stored().elements());
  std::vector<float> first(count), other(count);
  std::vector<double> sum(count, 0.0);
  double apart = 0;
  for (size_t rank = 0; rank < pieces.size(); ++rank) {
    std::vector<float>& values = rank == 0 ? first : other;
    read_box(pieces[rank], tables_[rank].find(rule.ours).box, own,
             [&](int64_t at, std::span<const float> from) { std::ranges::copy(from, values.begin() + at); });
    for (size_t i = 0; i < count; ++i) {
      sum[i] += static_cast<double>(values[i]);
      apart = std::max(apart, std::abs(static_cast<double>(values[i]) - static_cast<double>(first[i])));
    }
  }
  const bool copies = how == NeoxJoin::copies;
  if (!copies || apart > 0) {  // equal copies keep their bits
    const double divisor = copies ? static_cast<double>(pieces.size()) : 1.0;
    std::ranges::transform(sum, first.begin(), [&](double value) { return static_cast<float>(value / divisor); });
  }
  if (copies && apart > kFarApart) {
    ++apart_;
    if (apart > furthest_) {
      furthest_ = apart;
      furthest_name_ = rule.theirs;
    }
  }
  store(0, first);
}

void NeoxJoiner::tell() const {
  if (apart_ == 0) return;
  log::warning(
      "{}: the copies of {} replicated tensors differ between the tensor ranks by more than {}, {} by {:.3g}; they are "
      "averaged",
      folder_, apart_, kFarApart, furthest_name_, furthest_);
}

}  // namespace trireme
