#include "train/guard/contention.h"

#include <gmock/gmock.h>

#include <bit>
#include <vector>

#include "comm/communicator.h"

namespace trireme {
namespace {

std::optional<Contention> find(ContentionWatch& watch, const std::vector<double>& shares) {
  std::vector<uint64_t> bits;
  for (const double share : shares) bits.push_back(std::bit_cast<uint64_t>(share));
  return watch.find(bits);
}

TEST(ContentionWatch, TakesTheShareOfAllThreadsOverAnIntervalThatIsLongEnough) {
  double waited = 100;
  ContentionWatch watch(2, [&] { return std::optional(waited); });
  const Clock::time_point start = Clock::now();
  waited = 112;
  EXPECT_EQ(watch.share(start + std::chrono::seconds(5)), 0) << "too short";
  waited = 120;
  EXPECT_NEAR(watch.share(start + std::chrono::seconds(20)), 0.5, 0.01);
  waited = 121;
  EXPECT_NEAR(watch.share(start + std::chrono::seconds(40)), 0.025, 0.001)
      << "what was told before does not count again";
  waited = 21;
  EXPECT_EQ(watch.share(start + std::chrono::seconds(60)), 0) << "a thread has ended";
  waited = 1e6;
  EXPECT_EQ(watch.share(start + std::chrono::seconds(80)), 1) << "threads of libraries wait, too";
}

TEST(ContentionWatch, WithoutKernelSupportNothingIsReported) {
  ContentionWatch watch(1, [] { return std::optional<double>(); });
  EXPECT_EQ(watch.share(Clock::now() + std::chrono::seconds(20)), 0);
}

TEST(ContentionWatch, ReportsTheMostAffectedRankOnce) {
  ContentionWatch watch(1);
  EXPECT_FALSE(find(watch, {0, 0, 0}));
  EXPECT_FALSE(find(watch, {0.1, 0.33, 0})) << "helpers of its own";
  const auto found = find(watch, {0.4, 0.2, 0.75});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->share, 0.75);
  EXPECT_FALSE(find(watch, {0.9, 0.9, 0.9}));
}

TEST(ContentionWatch, SaysWhatHappensAndWhatToDo) {
  double waited = 0;
  ContentionWatch watch(1, [&] { return std::optional(waited); });
  const std::unique_ptr<Communicator> group = make_single();
  Scalars scalars(*group);
  const Clock::time_point start = Clock::now();
  testing::internal::CaptureStderr();
  watch.warn(scalars, "h1", start + std::chrono::seconds(5));
  waited = 15;
  watch.warn(scalars, "h1", start + std::chrono::seconds(20));
  waited = 30;
  watch.warn(scalars, "h1", start + std::chrono::seconds(40));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, testing::HasSubstr("other programs use the processors: for 75 % of the last seconds the threads of "
                                       "rank 0 on h1 were ready to compute but had no processor"));
  EXPECT_EQ(text.find("other programs"), text.rfind("other programs")) << "once";
}

}  // namespace
}  // namespace trireme
