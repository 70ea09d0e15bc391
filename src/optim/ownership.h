#pragma once
// Which rank of a group owns which elements of a flat array, and which elements travel together: pure arithmetic, the
// same on every rank. Gradients are summed at their owners (optim/reducer.h), which hold complete values of the
// gradient norm and send their elements to all ranks (optim/shared_weights.h).

#include <cstdint>
#include <span>
#include <vector>

#include "model/parameter_table.h"

namespace trireme {

// The gradient of an embedding is zero in the rows of ids that no rank saw. Ops::pack_rows() packs the other rows, so
// that only they travel. A map has one bit per row: row i is bit i mod 64 of word i / 64.

namespace touched_rows {

/// Words of a map.
int64_t map_words(int64_t rows);

/// Places of elements of [rows, width] after the marked rows are packed.
class Places {
 public:
  /// Borrows the map.
  Places(std::span<const int64_t> map, int64_t width);
  /// Place of `element` or, if its row is not marked, of the next marked one; monotonic.
  int64_t of(int64_t element) const;

 private:
  std::span<const int64_t> map_;
  int64_t width_;
  std::vector<int64_t> before_;  ///< marked rows before each word, and in total
};

}  // namespace touched_rows

/// Adjacent pieces, one per rank: piece r belongs to rank r and may be empty.
struct Stripe {
  std::vector<ParameterRange> pieces;
  int64_t ready_end = 0;  ///< it starts once elements [0, ready_end) are ready: the end of its bucket
  int64_t longest() const;
  ParameterRange range() const;            ///< of all pieces; at least one is not empty
  bool meets(ParameterRange range) const;  ///< overlaps it
};

/// First elements of the chunks that one value of the squared norm covers (Ops::squared_norms), ascending; the last
/// entry is the end. Of the trained elements.
std::vector<int64_t> norm_borders(const ParameterTable& table);
/// The same chunks of the frozen elements, of which nothing is summed: pieces of weights that ranks share.
std::vector<int64_t> frozen_borders(const ParameterTable& table);
/// The same for one array of `count` elements.
std::vector<int64_t> norm_borders(int64_t count);

/// The array's last part as [count, width], of which most rows are zero on every rank: an embedding's gradient. Only
/// rows that are nonzero on a rank travel, which does not change the bits of the sum.
struct SparseRows {
  int64_t begin = 0;  ///< its first element
  int64_t count = 0;  ///< 0: no such part
  int64_t width = 0;
  int64_t matrix = 0;  ///< the owner of element matrix + i owns element begin + i
};

class Ownership {
 public:
  Ownership() = default;
  /// Pieces consist of complete parts between `borders` (ascending, from 0). Buckets: the least number of elements that
  /// start together. A piece has about `piece` elements, fewer if the ranks would get unequal shares.
  Ownership(std::span<const int64_t> borders, int ranks, int64_t bucket, int64_t piece);
  /// This one, then those stripes.
  Ownership followed_by(const Ownership& other) const;
  /// From given stripes.
  Ownership(int ranks, std::vector<Stripe> stripes) : ranks_(ranks), stripes_(std::move(stripes)) {}

  int ranks() const { return ranks_; }
  const std::vector<Stripe>& stripes() const { return stripes_; }
  /// A rank's elements, ascending.
  std::vector<ParameterRange> owned_by(int rank) const;
  /// Stripes of the elements before `end`.
  std::vector<Stripe> before(int64_t end) const;
  /// Stripes of the rows that `touched` marks (touched_rows), packed at rows.begin; elements keep their owners.
  std::vector<Stripe> packed(const SparseRows& rows, std::span<const int64_t> touched) const;

 private:
  int ranks_ = 1;
  std::vector<Stripe> stripes_;
};

}  // namespace trireme
