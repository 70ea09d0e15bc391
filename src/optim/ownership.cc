#include "optim/ownership.h"

#include <algorithm>
#include <bit>

#include "ops/ops.h"

namespace trireme {

namespace touched_rows {

int64_t map_words(int64_t rows) { return (rows + 63) / 64; }

Places::Places(std::span<const int64_t> map, int64_t width) : map_(map), width_(width), before_{0} {
  for (const int64_t word : map) before_.push_back(before_.back() + std::popcount(static_cast<uint64_t>(word)));
}

int64_t Places::of(int64_t element) const {
  const int64_t row = element / width_;
  const auto at = static_cast<size_t>(row / 64);
  if (at == map_.size()) return before_.back() * width_;
  const auto word = static_cast<uint64_t>(map_[at]);
  const int64_t packed = before_[at] + std::popcount(word & ((uint64_t{1} << (row % 64)) - 1));
  return packed * width_ + ((word >> (row % 64) & 1) != 0 ? element % width_ : 0);
}

}  // namespace touched_rows

namespace {

/// Applies `change` to each piece; removes empty stripes.
template <class Change>
std::vector<Stripe> changed(const std::vector<Stripe>& stripes, Change change) {
  std::vector<Stripe> out;
  for (Stripe stripe : stripes) {
    for (ParameterRange& piece : stripe.pieces) piece = change(piece);
    if (stripe.longest() > 0) out.push_back(std::move(stripe));
  }
  return out;
}

std::vector<int64_t> borders_of(const ParameterTable& table, bool trained) {
  std::vector<int64_t> borders;
  for (const Parameter& parameter : table.all()) {
    if (parameter.trained() != trained) continue;
    for (int64_t at = 0; at < parameter.count(); at += kNormChunk) borders.push_back(parameter.offset + at);
  }
  borders.push_back(trained ? table.trained_count() : table.flat_count());
  return borders;
}

}  // namespace

int64_t Stripe::longest() const {
  int64_t longest = 0;
  for (const ParameterRange& piece : pieces) longest = std::max(longest, piece.end - piece.begin);
  return longest;
}

ParameterRange Stripe::range() const {
  ParameterRange range;
  for (const ParameterRange& piece : pieces) {
    if (piece.empty()) continue;
    range = range.empty() ? piece : ParameterRange{std::min(range.begin, piece.begin), std::max(range.end, piece.end)};
  }
  return range;
}

bool Stripe::meets(ParameterRange range) const {
  return std::ranges::any_of(pieces, [&](const ParameterRange& piece) {
    return std::max(piece.begin, range.begin) < std::min(piece.end, range.end);
  });
}

std::vector<int64_t> norm_borders(const ParameterTable& table) { return borders_of(table, true); }

std::vector<int64_t> frozen_borders(const ParameterTable& table) { return borders_of(table, false); }

std::vector<int64_t> norm_borders(int64_t count) {
  std::vector<int64_t> borders;
  for (int64_t at = 0; at < count; at += kNormChunk) borders.push_back(at);
  borders.push_back(count);
  return borders;
}

Ownership::Ownership(std::span<const int64_t> borders, int ranks, int64_t bucket, int64_t piece) : ranks_(ranks) {
  int owner = 0;  // of the next piece: continues over buckets, so that small ones do not all go to the first rank
  for (size_t at = 0; at + 1 < borders.size();) {
    size_t bucket_end = at + 1;
    while (bucket_end + 1 < borders.size() && borders[bucket_end] - borders[at] < bucket) ++bucket_end;
    while (at < bucket_end) {
      Stripe stripe{std::vector<ParameterRange>(static_cast<size_t>(ranks)), borders[bucket_end]};
      const int64_t share = std::min(piece, (borders[bucket_end] - borders[at] + ranks - 1) / ranks);
      for (int r = 0; r < ranks && at < bucket_end; ++r, owner = (owner + 1) % ranks) {
        const int64_t begin = borders[at++];
        while (at < bucket_end && borders[at + 1] - begin <= share) ++at;
        stripe.pieces[static_cast<size_t>(owner)] = {begin, borders[at]};
      }
      stripes_.push_back(std::move(stripe));
    }
  }
}

std::vector<ParameterRange> Ownership::owned_by(int rank) const {
  std::vector<ParameterRange> ranges;
  for (const Stripe& stripe : stripes_) {
    const ParameterRange& piece = stripe.pieces[static_cast<size_t>(rank)];
    if (!piece.empty()) ranges.push_back(piece);
  }
  std::ranges::sort(ranges, {}, &ParameterRange::begin);
  return ranges;
}

Ownership Ownership::followed_by(const Ownership& other) const {
  std::vector<Stripe> stripes = stripes_;
  stripes.insert(stripes.end(), other.stripes_.begin(), other.stripes_.end());
  return {ranks_, std::move(stripes)};
}

std::vector<Stripe> Ownership::before(int64_t end) const {
  return changed(stripes_, [&](ParameterRange piece) {
    return ParameterRange{std::min(piece.begin, end), std::min(piece.end, end)};
  });
}

std::vector<Stripe> Ownership::packed(const SparseRows& rows, std::span<const int64_t> touched) const {
  const touched_rows::Places places(touched, rows.width);
  const auto place = [&](int64_t element) {
    return rows.begin + places.of(std::clamp<int64_t>(element - rows.matrix, 0, rows.count * rows.width));
  };
  return changed(stripes_, [&](ParameterRange piece) { return ParameterRange{place(piece.begin), place(piece.end)}; });
}

}  // namespace trireme
