#include "tensor/arena.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

TEST(Arena, GivingATensorBackZeroesItAndNothingElse) {
  for (const int64_t elements : {3, 5000, 1'000'003}) {
    Arena arena(16 << 20);
    const View before = arena.take(DType::f32, {17}), tensor = arena.take(DType::f32, {elements}),
               after = arena.take(DType::f32, {17});
    Arena::set_sparse(tensor);
    for (const View v : {before, tensor, after}) std::ranges::fill(v.values<float>(), 1.0f);
    give_back(tensor);
    EXPECT_EQ(std::ranges::count(tensor.values<float>(), 0.0f), elements);
    for (const View v : {before, after}) EXPECT_EQ(std::ranges::count(v.values<float>(), 1.0f), 17) << elements;
    tensor.values<float>().back() = 2;
    EXPECT_EQ(tensor.values<float>().back(), 2);
  }
}

TEST(Arena, ReleaseLetsTensorsShareAPlace) {
  Arena sizes;
  const size_t start = sizes.mark();
  sizes.take(DType::f32, {100});
  sizes.release(start);
  sizes.take(DType::f32, {40});
  EXPECT_EQ(sizes.used(), 192u);  // 160 bytes, to the next cache line
  EXPECT_EQ(sizes.peak(), 448u);
}

}  // namespace
}  // namespace trireme
