#include "train/peak.h"

#include <gmock/gmock.h>

#include "base/log.h"

namespace trireme {
namespace {

class Peak : public testing::Test {
 protected:
  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  std::unique_ptr<Communicator> group_ = make_single();
  Scalars scalars_{*group_};
};

TEST_F(Peak, AMeasuredOneThatIsBeatenIsMeasuredAgain) {
  PeakRate peak(0, *ops_, 1, DType::f32, scalars_);
  EXPECT_TRUE(peak.is_measured());
  const double before = peak.total();
  EXPECT_NEAR(peak.share(before / 2), 0.5, 1e-12);
  EXPECT_EQ(peak.total(), before);
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak.share(before * 100), 1.0);  // no step is faster than the fastest thing that was seen
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("more than the peak of"));
  EXPECT_EQ(peak.total(), before * 100);
  EXPECT_NEAR(peak.share(before * 50), 0.5, 1e-12);
}

TEST_F(Peak, AConfiguredOneStaysAndIsWarnedOfOnce) {
  PeakRate peak(2e12, *ops_, 1, DType::f32, scalars_);
  EXPECT_FALSE(peak.is_measured());
  EXPECT_EQ(peak.total(), 2e12);
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak.share(5e12), 2.5);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::HasSubstr("mfu is above 100 %: steps reach 5 TFLOP/s per rank, log.peak-tflops says 2; leave it out"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak.share(3e12), 1.5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(peak.total(), 2e12);
}

}  // namespace
}  // namespace trireme
