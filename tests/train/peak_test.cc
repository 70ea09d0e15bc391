#include "train/peak.h"

#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "base/affinity.h"
#include "base/log.h"
#include "train/machine.h"

namespace trireme {
namespace {

class Peak : public testing::Test {
 protected:
  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  std::unique_ptr<Communicator> group_ = make_single();
  Scalars scalars_{*group_};
};

TEST_F(Peak, AMeasuredOneThatIsBeatenIsMeasuredAgain) {
  PeakRate peak(0, *ops_, 1, 1, DType::f32, scalars_);
  EXPECT_TRUE(peak.is_measured());
  const double before = peak.total();
  EXPECT_NEAR(peak.share(before / 2), 0.5, 1e-12);
  EXPECT_EQ(peak.total(), before);
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak.share(before * 100), 1.0);  // no step is faster than the fastest thing that was seen
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("more than the measured peak of"));
  EXPECT_EQ(peak.total(), before * 100);
  EXPECT_NEAR(peak.share(before * 50), 0.5, 1e-12);
}

/// Processes that do nothing but use processors, several for each.
class OtherPrograms {
 public:
  OtherPrograms() {
    for (size_t i = 0; i < 6 * inherited_cpus().size(); ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile uint64_t n = 0;;) n = n + 1;
      }
      children_.push_back(child);
    }
  }
  ~OtherPrograms() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }
  OtherPrograms(const OtherPrograms&) = delete;
  OtherPrograms& operator=(const OtherPrograms&) = delete;

 private:
  std::vector<pid_t> children_;
};

TEST_F(Peak, UseByOtherProgramsIsReportedAndDoesNotLowerIt) {
  const double before = measure_gemm_rate(*ops_, 1, DType::f32).best;
  const OtherPrograms others;
  const PeakRate peak(0, *ops_, 1, 1, DType::f32, scalars_);
  EXPECT_GT(peak.used_by_others(), 0.4);
  // By the wall it would be a quarter or less. Caches and the cores' clocks are still shared.
  EXPECT_GT(peak.total(), 0.5 * before);
}

TEST_F(Peak, ThatOfTwoThreadsIsNotMoreThanTwiceThatOfOne) {
  // A call of a fast processor ends between two ticks of its clock, from which the system knows what others have run.
  const double one = measure_gemm_rate(*ops_, 1, DType::bf16).best;
  EXPECT_LT(measure_gemm_rate(*ops_, 2, DType::bf16).best, 2.6 * one);
}

TEST_F(Peak, RanksThatShareProcessorsShareTheirPeak) {
  const int processors = static_cast<int>(offered_cpus().size());
  EXPECT_EQ(share_of_processors(1, 1), 1);
  EXPECT_LE(share_of_processors(1, 4 * processors), 0.25);
  EXPECT_LE(share_of_processors(2 * processors, 2), 0.25);
}

TEST_F(Peak, AConfiguredOneStaysAndGivesOneWarning) {
  PeakRate peak(2e12, *ops_, 1, 1, DType::f32, scalars_);
  EXPECT_FALSE(peak.is_measured());
  EXPECT_EQ(peak.used_by_others(), 0);
  EXPECT_EQ(peak.total(), 2e12);
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak.share(5e12), 2.5);
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      testing::HasSubstr("mfu is above 100 %: steps reach 5 TFLOP/s per rank, but log.peak-tflops is 2; remove it"));
  testing::internal::CaptureStderr();
  EXPECT_EQ(peak.share(3e12), 1.5);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(peak.total(), 2e12);
}

}  // namespace
}  // namespace trireme
