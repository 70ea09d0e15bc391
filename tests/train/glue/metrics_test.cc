#include "train/glue/results.h"

#include <gtest/gtest.h>

#include <cmath>

namespace trireme {
namespace {

constexpr int kRows = 60;

/// Values by a formula; what scipy 1.17 and scikit-learn 1.9 give for the same ones stands below.
template <class F>
std::vector<double> values(F f) {
  std::vector<double> out;
  for (int i = 0; i < kRows; ++i) out.push_back(f(i));
  return out;
}

const std::vector<double> kX = values([](int i) { return (i * 37 % 101) / 7.0; });
const std::vector<double> kY = values([](int i) { return (i * 53 % 17) / 4.0 + (i % 5) * 0.3; });
const std::vector<double> kThree = values([](int i) { return (i * 7 + i / 3) % 3; });
const std::vector<double> kThreeThere = values([](int i) { return (i * 5 + i / 4) % 3; });
const std::vector<double> kTwo = values([](int i) { return i * 7 % 11 > 4; });
const std::vector<double> kTwoThere = values([](int i) { return (i * 7 + i % 3) % 11 > 5; });

TEST(GlueMetrics, EqualThoseOfScipyAndScikitLearn) {
  EXPECT_NEAR(pearson_correlation(kX, kY), 0.0829246374759542, 1e-12);
  EXPECT_NEAR(spearman_correlation(kX, kY), 0.07140872464573493, 1e-12);
  EXPECT_NEAR(mean_squared_error(kX, kY), 38.161666666666676, 1e-9);
  EXPECT_NEAR(matthews_correlation(kThree, kThreeThere), -0.05163977794943222, 1e-12);
  EXPECT_NEAR(matthews_correlation(kTwo, kTwoThere), 0.7233859069307293, 1e-12);
  EXPECT_NEAR(f1_score(kTwo, kTwoThere), 0.847457627118644, 1e-12);
  EXPECT_NEAR(accuracy(kTwo, kTwoThere), 0.85, 1e-12);
}

TEST(GlueMetrics, EqualValuesShareTheMeanOfTheirRanks) {
  const auto rounded = [](std::vector<double> x) {
    for (double& v : x) v = std::nearbyint(v);
    return x;
  };
  EXPECT_NEAR(spearman_correlation(rounded(kX), rounded(kY)), 0.02592162422553654, 1e-12);
  const std::vector<double> x{1, 2, 2, 3}, y{10, 30, 20, 40};
  EXPECT_NEAR(spearman_correlation(x, y), 0.9486832980505138, 1e-12);
}

TEST(GlueMetrics, HaveTheLibrariesValuesWhereNothingVaries) {
  const std::vector<double> ones{1, 1, 1}, mixed{0, 1, 0}, zeros{0, 0, 0};
  EXPECT_EQ(matthews_correlation(ones, mixed), 0);
  EXPECT_EQ(f1_score(zeros, zeros), 0);
  EXPECT_TRUE(std::isnan(pearson_correlation(ones, mixed)));
  EXPECT_TRUE(std::isnan(spearman_correlation(mixed, zeros)));
  EXPECT_TRUE(std::isnan(spearman_correlation(std::vector<double>{1, std::nan(""), 2}, mixed)));
}

TEST(GlueMetrics, ATaskOfTwoMetricsHasTheirMeanToo) {
  const NamedMetrics both = glue_metrics(glue_task("mrpc"), kTwo, kTwoThere);
  ASSERT_EQ(both.size(), 3u);
  EXPECT_EQ(both[0].first, "accuracy");
  EXPECT_EQ(both[1].first, "f1");
  EXPECT_EQ(both[2].first, "combined_score");
  EXPECT_DOUBLE_EQ(both[2].second, (both[0].second + both[1].second) / 2);
  const NamedMetrics one = glue_metrics(glue_task("cola"), kTwo, kTwoThere);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].first, "matthews_correlation");
  EXPECT_EQ(glue_metrics(glue_task("stsb"), kX, kY)[1].first, "spearmanr");
}

}  // namespace
}  // namespace trireme
