#include "ops/gemm_bench.h"
#include "ops/cpu/gemm.h"

#include <gtest/gtest.h>

#include <tuple>

#include "base/error.h"
#include "base/numbers.h"

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

TEST(GemmMeter, KeepsEveryPassAndReportsMedians) {
  const std::vector<GemmShape> shapes = {{GemmKind::forward, 64, 32, 48, DType::f32},
                                         {GemmKind::weight, 200, 64, 96, DType::f32}};
  GemmMeter meter(shapes, 1);
  for (int i = 0; i < 3; ++i) meter.pass(2);
  for (size_t shape = 0; shape < shapes.size(); ++shape) {
    const GemmTiming timing = meter.timing(shape);
    for (const auto& [layout, told] :
         {std::pair{timing.layout, timing.seconds}, {GemmLayout::plain, timing.plain_seconds}}) {
      std::vector<double> seconds;
      for (int pass = 0; pass < 3; ++pass) seconds.push_back(meter.seconds(shape, layout, pass));
      EXPECT_EQ(median(seconds), told);
    }
    EXPECT_LE(timing.seconds, timing.plain_seconds);
  }
}

TEST(GemmBench, RefusesToMeasureNothing) {
  const GemmShape shape{GemmKind::forward, 8, 8, 8, DType::f32};
  for (const auto& [threads, repetitions, message] :
       {std::tuple{1, 0, "measuring GEMMs with 0 repetitions, expected at least 1"},
        {0, 1, "measuring GEMMs with 0 threads, expected at least 1"}}) {
    try {
      measure_gemms(std::span(&shape, 1), threads, repetitions);
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), message);
    }
  }
}

}  // namespace
}  // namespace trireme
