#include "comm/rank_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits.h>

#include <cstdlib>
#include <string>

#include "base/log.h"
#include "comm/launcher.h"

namespace trireme {
namespace {

using Kind = RankRecord::Kind;

TEST(RankRecord, IsALineAndBack) {
  const RankRecord records[] = {
      {.kind = Kind::arrived},
      {.kind = Kind::error, .text = "[h1 0] error: \"a\"\n\tb"},
      {.kind = Kind::lost, .rank = 0, .host = "n0", .text = "no heartbeat for 10.0 s"},
      {.kind = Kind::lost, .rank = 2, .host = "n2", .text = "n1 cannot reach n2", .other = 1},
      {.kind = Kind::lost, .text = "every rank waits for others"},
  };
  for (const RankRecord& record : records) {
    const std::string line = to_line(record);
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(record_in(line), record) << line;
  }
  EXPECT_EQ(to_line(records[2]),
            R"(trireme-record: {"record":"lost","rank":0,"host":"n0","text":"no heartbeat for 10.0 s"})");
}

TEST(RankRecord, DoesNotMatchOtherLines) {
  for (const char* line :
       {"", "error: rank 2 on h3 was lost", "trireme-record: ", "trireme-record: []", "trireme-record: {\"record\":1}",
        "trireme-record: {\"record\":\"fine\"}", " trireme-record: {\"record\":\"arrived\"}",
        "trireme-record: {\"record\":\"lost\",\"rank\":\"2\"}"}) {
    EXPECT_EQ(record_in(line), std::nullopt) << line;
  }
}

TEST(RankRecord, IsWrittenImmediatelyWithTextsOfAnyLength) {
  const std::string long_text(100000, '"');
  const std::string line = to_line({.kind = Kind::lost, .rank = 1, .host = long_text, .text = long_text});
  EXPECT_LT(line.size() + 1, size_t{PIPE_BUF});
  EXPECT_TRUE(record_in(line).has_value());
}

TEST(RankRecord, IsSentOnlyToALaunch) {
  const auto told = [] {
    testing::internal::CaptureStderr();
    tell_launch({.kind = Kind::arrived});
    return testing::internal::GetCapturedStderr();
  };
  unsetenv(kLaunchIdVariable);
  EXPECT_EQ(told(), "");
  setenv(kLaunchIdVariable, "7", 1);
  EXPECT_EQ(told(), "trireme-record: {\"record\":\"arrived\"}\n");
  tell_launch_errors();
  testing::internal::CaptureStderr();
  log::warning("rank 1 was lost");
  log::error("a disk is full\nand more");
  log::set_error_listener({});
  log::error("nobody listens");
  unsetenv(kLaunchIdVariable);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: rank 1 was lost\n"
            "trireme-record: {\"record\":\"error\",\"text\":\"error: a disk is full\"}\n"
            "error: a disk is full\nand more\nerror: nobody listens\n");
}

}  // namespace
}  // namespace trireme
