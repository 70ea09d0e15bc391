#include "bench/step_ceiling.h"

#include <gtest/gtest.h>

#include <array>

#include "model/presets.h"

namespace trireme::test {
namespace {

TEST(CeilingMeter, ComparesEveryStepWithThePassAfterIt) {
  CeilingMeter meter(preset("opt-8m").spec, DType::f32, 32, 1);
  meter.pass();
  const StepCeiling first = meter.ceiling();
  EXPECT_GE(first.flops_per_second, first.plain_flops_per_second);
  EXPECT_NEAR(meter.share(std::array{first.flops_per_second / 2}), 0.5, 1e-9);
  for (int i = 0; i < 2; ++i) meter.pass();
  const double rate = meter.ceiling().flops_per_second, share = meter.share(std::array{rate, rate, rate});
  EXPECT_NEAR(meter.share(std::array{rate / 4, rate / 4, rate / 4}), share / 4, 1e-9);
  EXPECT_EQ(meter.share(std::array{rate, 0.0, 0.0}), 0) << "the median of three";
}

}  // namespace
}  // namespace trireme::test
