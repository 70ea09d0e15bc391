#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "cli/bench/benchmarks.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

/// Of one size. wrong: values.
std::string log_of(int wrong) {
  return fmt::format(
      "h1[0] #  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
      "h1[0]    1024    256  float    sum    -1  13.2   0.08   0.08      0  13.3   0.08   0.08  {:>5}\n",
      wrong);
}

TEST(BenchCommCompare, EndsWithAnErrorForALogOfWrongResults) {
  const TemporaryFolder dir;
  const std::string right = dir / "right.log", wrong = dir / "wrong.log";
  write_text(right, log_of(0));
  write_text(wrong, log_of(37));
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  EXPECT_EQ(bench_comm_command({"--compare", right}), 0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  EXPECT_EQ(bench_comm_command({"--compare", right, "--compare", wrong}), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("wrong.log: 37 values had wrong results: the network or the library corrupted data there"));
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("WRONG RESULTS: 37 values"));
}

}  // namespace
}  // namespace trireme
