#include "bench/comm/options.h"

#include <gmock/gmock.h>

#include "tests/support/expect_error.h"

namespace trireme::comm_bench {
namespace {

using testing::ElementsAre;

TEST(CommOptions, SizesGrowByFactorOrByStep) {
  Options options;
  options.least_bytes = 8;
  options.most_bytes = 100;
  options.factor = 2;
  EXPECT_THAT(sizes(options), ElementsAre(8, 16, 32, 64));
  options.factor = 0;
  options.step_bytes = 40;
  EXPECT_THAT(sizes(options), ElementsAre(8, 48, 88));
  EXPECT_THAT(sizes(Options()), ElementsAre(32 << 20));
}

TEST(CommOptions, SizesThatNeverGrowAreRefused) {
  Options options;
  options.least_bytes = 0;
  options.factor = 2;
  EXPECT_ERROR(sizes(options), ErrorKind::usage, "the size never grows from -b 0");
  options.factor = 0;
  options.step_bytes = 0;
  EXPECT_ERROR(sizes(options), ErrorKind::usage, "the size never grows");
  options.least_bytes = options.most_bytes + 1;
  EXPECT_ERROR(sizes(options), ErrorKind::usage, "-b 33554433 is above -e 33554432");
}

TEST(CommOptions, BytesHaveUnitsOf1024) {
  EXPECT_EQ(parse_bytes("8", "-b"), 8);
  EXPECT_EQ(parse_bytes("32M", "-b"), 32 << 20);
  EXPECT_EQ(parse_bytes("1.5k", "-b"), 1536);
  EXPECT_EQ(parse_bytes("8G", "-b"), int64_t{8} << 30);
  for (const char* text : {"", "M", "1X", "-1", "1e30", "nan"}) {
    EXPECT_ERROR(parse_bytes(text, "-e"), ErrorKind::usage, "expected bytes such as 8, 32M or 1G");
  }
}

TEST(CommOptions, NamesAreThoseOfNcclTestsAndOurs) {
  EXPECT_THAT(parse_elements("half"), ElementsAre(Element::f16));
  EXPECT_THAT(parse_elements("bf16"), ElementsAre(Element::bf16));
  EXPECT_EQ(parse_elements("all").size(), 10u);
  EXPECT_EQ(parse_ops("all").size(), 5u);
  EXPECT_THAT(parse_ops("avg"), ElementsAre(ReduceOp::avg));
  EXPECT_ERROR(parse_elements("fp8"), ErrorKind::usage, "-d fp8");
  EXPECT_ERROR(parse_ops("mean"), ErrorKind::usage, "-o mean");
  EXPECT_EQ(parse_subjects({"all"}).size(), 10u);
  EXPECT_EQ(parse_subjects({"all_reduce_perf"})[0].name, "all_reduce");
  EXPECT_TRUE(parse_subjects({"gradient"})[0].is_gradient);
  EXPECT_ERROR(parse_subjects({"hypercube"}), ErrorKind::usage, "\"hypercube\" is not supported");
}

TEST(CommOptions, BusBandwidthCountsWhatALinkCarries) {
  const auto factor = [](const char* name) { return bus_factor(parse_subjects({name})[0], 4); };
  EXPECT_DOUBLE_EQ(factor("all_reduce"), 1.5);
  EXPECT_DOUBLE_EQ(factor("gradient"), 1.5);
  for (const char* name : {"all_gather", "reduce_scatter", "alltoall", "gather", "scatter"}) {
    EXPECT_DOUBLE_EQ(factor(name), 0.75) << name;
  }
  for (const char* name : {"broadcast", "reduce", "sendrecv"}) EXPECT_DOUBLE_EQ(factor(name), 1) << name;
}

}  // namespace
}  // namespace trireme::comm_bench
