// `trireme train --profile N`.

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class Profile : public TrainingFixture {};

TEST_F(Profile, SaysWhereTheTimeGoesAndChangesNoBit) {
  const Outcome plain = run(trireme_command(train("plain")));
  ASSERT_EQ(plain.code, 0) << plain.output;
  const Outcome outcome = run(trireme_command(train("profiled", {"--profile", "3"})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  for (const char* text : {"time of 3 steps of rank 0", "linear_backward_weight 32->96", "GFLOP/s",
                           "attention_backward", "waiting for the gradient exchange", "ceilings: GEMM"})
    EXPECT_THAT(outcome.output, HasSubstr(text));
  EXPECT_EQ(weights("profiled"), weights("plain"));

  const Json events = read_json(path("profiled/trace.json")).at("traceEvents");
  size_t steps = 0, projections = 0;
  double covered = 0, whole = 0;
  for (const Json& event : events) {
    const auto name = event.at("name").get<std::string>();
    const double duration = event.at("dur").get<double>();
    EXPECT_GE(duration, 0);
    (name == "step" ? whole : covered) += duration;
    steps += name == "step";
    projections += name == "linear_backward_weight 32->96";
  }
  EXPECT_EQ(steps, 3u);
  EXPECT_EQ(projections, 3u * 2 * 2) << "three steps of two micro-batches through two layers";
  EXPECT_GT(covered, 0);
  EXPECT_LE(covered, whole);
}

TEST_F(Profile, ATraceThatCannotBeWrittenIsAWarning) {
  std::filesystem::create_directories(path("run/trace.json"));
  const Outcome outcome = run(trireme_command(train("run", {"--profile=1"})));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("trace.json is a folder"));
  EXPECT_THAT(outcome.output, HasSubstr("trace.json"));
}

}  // namespace
}  // namespace trireme
