#include "ops/gemm_bench.h"
#include "ops/cpu/gemm.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

TEST(GemmBench, MeasuresEveryProductOfALayer) {
  std::vector<GemmShape> shapes;
  for (GemmKind kind : {GemmKind::forward, GemmKind::input, GemmKind::weight})
    for (DType dtype : {DType::f32, DType::bf16}) shapes.push_back({kind, 64, 32, 48, dtype});
  const auto timings = measure_gemms(shapes, 2, 3);
  ASSERT_EQ(timings.size(), shapes.size());
  for (size_t i = 0; i < shapes.size(); ++i) {
    EXPECT_EQ(timings[i].shape.kind, shapes[i].kind);
    EXPECT_EQ(timings[i].shape.dtype, gemm_has_bf16() ? shapes[i].dtype : DType::f32);
    EXPECT_GT(timings[i].seconds, 0);
    EXPECT_GE(timings[i].plain_seconds, timings[i].seconds);
  }
}

TEST(GemmBench, RefusesToMeasureNothing) {
  const GemmShape shape{GemmKind::forward, 8, 8, 8, DType::f32};
  try {
    measure_gemms(std::span(&shape, 1), 1, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "measuring GEMMs with 1 threads and 0 repetitions, expected at least 1 of each");
  }
}

}  // namespace
}  // namespace trireme
