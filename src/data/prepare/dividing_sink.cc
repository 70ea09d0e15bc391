#include "data/prepare/dividing_sink.h"

#include <algorithm>

namespace trireme {

DividingSink::DividingSink(std::span<const uint64_t> apart, uint64_t done, uint64_t width, DocumentSink& first,
                           DocumentSink& second)
    : apart_(apart),
      document_(done),
      next_(static_cast<size_t>(std::lower_bound(apart.begin(), apart.end(), done) - apart.begin())),
      width_(width),
      first_(first),
      second_(second) {}

uint64_t DividingSink::alike(uint64_t most) const {
  if (!is_apart()) return next_ < apart_.size() ? std::min(most, apart_[next_] - document_) : most;
  uint64_t count = 1;
  while (count < most && next_ + count < apart_.size() && apart_[next_ + count] == document_ + count) ++count;
  return count;
}

void DividingSink::append(std::span<const std::byte> ids, std::span<const size_t> ends) {
  size_t begin = 0;  // of the remaining ids
  const auto give = [&](size_t end) {
    (is_apart() ? second_ : first_).append(ids.subspan(begin * width_, (end - begin) * width_), ends_);
    begin = end;
  };
  while (!ends.empty()) {
    const uint64_t count = alike(ends.size());
    ends_.assign(ends.begin(), ends.begin() + static_cast<ptrdiff_t>(count));
    const size_t end = ends_.back();
    for (size_t& document_end : ends_) document_end -= begin;
    give(end);
    if (is_apart()) next_ += count;
    document_ += count;
    ends = ends.subspan(count);
  }
  ends_.clear();
  if (begin < ids.size() / width_) give(ids.size() / width_);
}

}  // namespace trireme
