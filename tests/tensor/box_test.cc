#include "tensor/box.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace trireme {
namespace {

TEST(Box, SaysWhatTwoHaveInCommon) {
  const Box a{{2, 0}, {4, 8}}, b{{3, 6}, {9, 8}};
  EXPECT_EQ(overlap(a, b), (Box{{3, 6}, {3, 2}}));
  EXPECT_EQ(overlap(b, a), overlap(a, b));
  EXPECT_TRUE(overlap(a, Box{{6, 0}, {1, 8}}).empty());
  EXPECT_EQ(overlap(a, whole_box({16, 8})), a);
  EXPECT_EQ(a.to_string(), "[2:6, 0:8]");
}

TEST(Box, CountsItsRowsFromItsOwnFirst) {
  const Box box{{10, 4}, {6, 3}};
  EXPECT_EQ(box.row_width(), 3);
  EXPECT_EQ(box.rows(2, 3), (Box{{12, 4}, {3, 3}}));
}

TEST(Box, PlacesOfItsArrayAreElementsOfTheTensor) {
  const Box box{{1, 2, 3}, {2, 3, 4}}, tensor = whole_box({5, 6, 7});
  EXPECT_EQ(offset_of(box, {1, 2, 3}), 0);
  EXPECT_EQ(offset_of(box, {2, 4, 6}), box.elements() - 1);
  EXPECT_EQ(offset_of(tensor, {2, 4, 6}), 2 * 42 + 4 * 7 + 6);
  for (int64_t i = 0; i < box.elements(); ++i) EXPECT_EQ(offset_of(box, index_at(box, i)), i);
}

/// An array of the box whose elements are their places in the tensor.
std::vector<int64_t> places(const Box& box, const Box& tensor) {
  std::vector<int64_t> values(static_cast<size_t>(box.elements()));
  for (int64_t i = 0; i < box.elements(); ++i) values[static_cast<size_t>(i)] = offset_of(tensor, index_at(box, i));
  return values;
}

TEST(Box, RunsMeetEveryCommonElementOnceAndAreAsLongAsTheyCanBe) {
  struct {
    Box a, b;
    int runs;
  } cases[] = {
      {{{0, 0}, {6, 8}}, {{2, 0}, {3, 8}}, 1},              // whole rows
      {{{0, 0}, {6, 8}}, {{2, 4}, {3, 4}}, 3},              // half rows
      {{{0, 4}, {6, 4}}, {{2, 4}, {3, 4}}, 1},              // whole rows of both
      {{{3}, {9}}, {{0}, {5}}, 1},                          // one dim
      {{{0, 0, 0}, {4, 3, 5}}, {{1, 1, 0}, {2, 2, 5}}, 2},  // the last dim is whole
      {{{0, 0, 0}, {4, 3, 5}}, {{1, 1, 2}, {2, 2, 3}}, 4},
  };
  for (const auto& [a, b, expected] : cases) {
    const Box tensor = a.dims() == 1 ? whole_box({20}) : a.dims() == 2 ? whole_box({20, 20}) : whole_box({9, 9, 9});
    const std::vector<int64_t> from = places(a, tensor), to = places(b, tensor);
    std::vector<int64_t> met;
    int runs = 0;
    for_each_run(overlap(a, b), a, b, [&](int64_t in_a, int64_t in_b, int64_t count) {
      ++runs;
      for (int64_t i = 0; i < count; ++i) {
        EXPECT_EQ(from[static_cast<size_t>(in_a + i)], to[static_cast<size_t>(in_b + i)]);
        met.push_back(from[static_cast<size_t>(in_a + i)]);
      }
    });
    EXPECT_EQ(met, places(overlap(a, b), tensor)) << a.to_string() << b.to_string();
    EXPECT_EQ(runs, expected) << a.to_string() << b.to_string();
  }
  for_each_run(overlap(Box{{0}, {2}}, Box{{5}, {2}}), Box{{0}, {2}}, Box{{5}, {2}},
               [](int64_t, int64_t, int64_t) { FAIL() << "nothing is common"; });
}

}  // namespace
}  // namespace trireme
