#include "optim/ownership.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

/// Every `width` elements, and the end.
std::vector<int64_t> regular_borders(int64_t count, int64_t width) {
  std::vector<int64_t> borders;
  for (int64_t at = 0; at < count; at += width) borders.push_back(at);
  borders.push_back(count);
  return borders;
}

TEST(Ownership, EveryElementHasOneOwnerAndTravelsOnce) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const int64_t count : {1, 31, 1000, 4096, 10'007}) {
      for (const int64_t bucket : {1, 50, 999, 100'000}) {
        for (const int64_t piece : {1, 64, 500}) {
          const Ownership ownership(regular_borders(count, 16), ranks, bucket, piece);
          std::vector<int> owned(static_cast<size_t>(count)), travelled = owned;
          const std::vector<int> once(owned.size(), 1);
          for (int r = 0; r < ranks; ++r) {
            int64_t before = 0;
            for (const auto& [begin, end] : ownership.owned_by(r)) {
              ASSERT_LE(before, begin);
              before = end;
              for (int64_t i = begin; i < end; ++i) ++owned[static_cast<size_t>(i)];
            }
          }
          for (const Stripe& stripe : ownership.stripes()) {
            ASSERT_EQ(stripe.pieces.size(), static_cast<size_t>(ranks));
            for (const auto& [begin, end] : stripe.pieces)
              for (int64_t i = begin; i < end; ++i) ++travelled[static_cast<size_t>(i)];
          }
          EXPECT_EQ(owned, once) << ranks << " " << count << " " << bucket << " " << piece;
          EXPECT_EQ(travelled, once) << ranks << " " << count << " " << bucket << " " << piece;
        }
      }
    }
  }
}

TEST(Ownership, PiecesBeginAtBordersAndSharesAreNearlyEqual) {
  const auto borders = regular_borders(100'000, 64);
  const Ownership ownership(borders, 3, 20'000, 5000);
  for (int r = 0; r < 3; ++r) {
    int64_t owned = 0;
    for (const auto& [begin, end] : ownership.owned_by(r)) {
      EXPECT_TRUE(begin % 64 == 0 && (end % 64 == 0 || end == 100'000)) << begin << " " << end;
      owned += end - begin;
    }
    EXPECT_NEAR(static_cast<double>(owned), 100'000 / 3.0, 1500) << r;
  }
}

TEST(Ownership, AStripeWaitsForItsWholeBucket) {
  const Ownership ownership(regular_borders(1000, 10), 2, 250, 40);
  for (const Stripe& stripe : ownership.stripes()) {
    for (const ParameterRange& piece : stripe.pieces) EXPECT_LE(piece.end, stripe.ready_end);
  }
  std::vector<int64_t> ends;
  for (const Stripe& stripe : ownership.stripes()) {
    if (ends.empty() || ends.back() != stripe.ready_end) ends.push_back(stripe.ready_end);
  }
  EXPECT_EQ(ends, (std::vector<int64_t>{250, 500, 750, 1000}));
}

TEST(Ownership, OfAModelHoldsWholeValuesOfTheNorm) {
  const ParameterTable table(tiny_spec());
  const auto borders = norm_borders(table);
  EXPECT_EQ(borders.size(), table.all().size() + 1) << "no parameter of it has more than one";
  EXPECT_EQ(borders.back(), table.flat_count());
  for (size_t i = 0; i < table.all().size(); ++i) EXPECT_EQ(borders[i], table.all()[i].offset);
}

TEST(Ownership, PackedRowsStayWithTheOwnersOfTheirElements) {
  const int64_t count = 130, width = 7, matrix = 100, packed_begin = 5000;
  const Ownership ownership(regular_borders(2000, 16), 3, 600, 50);
  std::vector<int> owner(2000);
  for (int r = 0; r < 3; ++r) {
    for (const auto& [begin, end] : ownership.owned_by(r)) std::fill(owner.begin() + begin, owner.begin() + end, r);
  }
  std::mt19937 random(3);
  for (const double touched : {0.0, 0.1, 1.0}) {
    std::vector<int64_t> map(static_cast<size_t>(touched_rows::map_words(count)));
    std::vector<int> expected;  // owner of each packed element
    for (int64_t row = 0; row < count; ++row) {
      if (!std::bernoulli_distribution(touched)(random)) continue;
      auto& word = map[static_cast<size_t>(row / 64)];
      word = static_cast<int64_t>(static_cast<uint64_t>(word) | uint64_t{1} << (row % 64));
      for (int64_t i = 0; i < width; ++i) expected.push_back(owner[static_cast<size_t>(matrix + row * width + i)]);
    }
    std::vector<int> found(expected.size(), -1);
    for (const Stripe& stripe : ownership.packed({packed_begin, count, width, matrix}, map)) {
      EXPECT_GT(stripe.longest(), 0);
      for (size_t r = 0; r < stripe.pieces.size(); ++r) {
        for (int64_t i = stripe.pieces[r].begin; i < stripe.pieces[r].end; ++i) {
          ASSERT_LT(i - packed_begin, static_cast<int64_t>(found.size()));
          found[static_cast<size_t>(i - packed_begin)] = static_cast<int>(r);
        }
      }
    }
    EXPECT_EQ(found, expected) << touched;
  }
}

}  // namespace
}  // namespace trireme
