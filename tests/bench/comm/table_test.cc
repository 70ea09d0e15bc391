#include "bench/comm/table.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_data.h"

namespace trireme::comm_bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

Row row_of(int64_t bytes, double microseconds, double busbw) {
  Row row{bytes, bytes / 4, "float", "sum", -1, std::nullopt, std::nullopt};
  row.out_of_place = Timing{microseconds, busbw / 2, busbw, 0.0};
  row.in_place = Timing{2 * microseconds, busbw / 4, busbw / 2, 0.0};
  return row;
}

TEST(CommTable, HasTheColumnsOfNcclTests) {
  const Row row{4294967296,
                1073741824,
                "float",
                "sum",
                -1,
                Timing{24361, 176.31, 330.58, 0.0},
                Timing{24365, 176.27, 330.51, 0.0}};
  EXPECT_EQ(to_text(row),
            "  4294967296    1073741824     float     sum      -1    24361  176.31  330.58      0    24365  176.27  "
            "330.51      0\n");
  const std::string header = table_header();
  const size_t second = header.find('\n') + 1;
  EXPECT_EQ(header.substr(second, header.find('\n', second) - second),
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   "
            "busbw  #wrong");
}

TEST(CommTable, IsReadBackAsItWasWritten) {
  Row gradient = row_of(1024, 17.93, 3.5);
  gradient.out_of_place.reset();
  gradient.in_place->wrong.reset();
  const std::string text = "# Collective test starting: gradient_perf\n" + table_header() +
                           to_text(row_of(8, 99.5, 1)) + to_text(gradient) + "# Avg bus bandwidth    : 1.25 OK\n";
  const auto tables = parse_tables(text, "f");
  ASSERT_EQ(tables.size(), 1u);
  EXPECT_EQ(tables[0].collective, "gradient");
  EXPECT_EQ(tables[0].average_bus_bandwidth, 1.25);
  ASSERT_EQ(tables[0].rows.size(), 2u);
  EXPECT_EQ(tables[0].rows[0].out_of_place->microseconds, 99.5);
  EXPECT_EQ(tables[0].rows[0].in_place->wrong, 0.0);
  EXPECT_FALSE(tables[0].rows[1].out_of_place);
  EXPECT_FALSE(tables[0].rows[1].in_place->wrong);
}

TEST(CommTable, AverageIsOverAllSizesAndBothModes) {
  const std::vector<Row> rows = {row_of(8, 1, 1), row_of(16, 1, 3)};
  EXPECT_DOUBLE_EQ(average_bus_bandwidth(rows), (1 + 0.5 + 3 + 1.5) / 4);
  EXPECT_EQ(average_bus_bandwidth({}), 0);
}

TEST(CommTable, ReadsEveryRealLogAndAgreesWithItsFooter) {
  TRIREME_NEEDS_TEST_DATA("parsers/nccl");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data_dir() / "parsers/nccl")) {
    const std::string name = entry.path().filename();
    const auto tables = parse_tables(read_text(entry.path()), name);
    ASSERT_EQ(tables.size(), 1u) << name;
    EXPECT_THAT(tables[0].skipped_lines, ElementsAre()) << name;
    ASSERT_TRUE(tables[0].average_bus_bandwidth) << name;
    // The log's footer has more digits than its rows.
    EXPECT_NEAR(average_bus_bandwidth(tables[0].rows), *tables[0].average_bus_bandwidth,
                1e-3 + 2e-3 * *tables[0].average_bus_bandwidth)
        << name;
    EXPECT_EQ(total_wrong(tables[0].rows), 0) << name;
    ++files;
  }
  EXPECT_EQ(files, 9);
}

TEST(CommTable, FindsColumnsByTheirHeader) {
  TRIREME_NEEDS_TEST_DATA("parsers/nccl");
  const auto read = [](const char* name) {
    return parse_tables(read_text(test_data_dir() / "parsers/nccl" / name), name)[0];
  };
  const Table gather = read("a100x8_nccl_allgather.log"), broadcast = read("a100x8_nccl_broadcast.log"),
              tagged = read("aws_batch_mpirun_tagged.log"), reduce = read("a100x8_nccl_reduce.log"),
              all_to_all = read("a100x8_nccl_alltoall.log"), newer = read("gh200x8_2nodes_allreduce_ofi.log");
  EXPECT_EQ(gather.rows.back().bytes, 8589934592);
  EXPECT_EQ(gather.rows.back().op, "none");
  EXPECT_EQ(gather.rows.back().root, -1);
  EXPECT_EQ(broadcast.rows.back().root, 0);
  EXPECT_EQ(broadcast.rows.back().op, "none");
  EXPECT_EQ(reduce.rows.back().root, 0);
  EXPECT_EQ(reduce.rows.back().op, "sum");
  EXPECT_EQ(all_to_all.rows.back().out_of_place->microseconds, 33508) << "its redop column is blank";
  EXPECT_FALSE(gather.rows.back().in_place->wrong);
  EXPECT_EQ(tagged.rows.back().in_place->bus_bandwidth, 483.35);
  EXPECT_EQ(tagged.rows.back().in_place->wrong, 0.0);
  EXPECT_EQ(newer.collective, "all_reduce");
  EXPECT_EQ(newer.rows.back().in_place->microseconds, 1907.8);
}

TEST(CommTable, CutLinesAreNamedAndFilesWithoutATableRefused) {
  const std::string text = "n1:12 [0] NCCL INFO hello\n" + table_header() + to_text(row_of(8, 1, 1)) +
                           "        1024           256     float     sum      -1    17.93\n" +
                           "3: " + to_text(row_of(16, 1, 1));
  const auto tables = parse_tables(text, "f");
  EXPECT_THAT(tables[0].skipped_lines, ElementsAre(6));
  EXPECT_EQ(tables[0].rows.size(), 2u) << "the tag of srun --label is taken off";
  EXPECT_ERROR(parse_tables("hello\n", "f.log"), ErrorKind::data, "f.log: no table of nccl-tests");
  EXPECT_ERROR(parse_tables(table_header(), "f.log"), ErrorKind::data, "with rows below it");
}

TEST(CommTable, SeveralStandBesideEachOtherBySize) {
  const Table ours{"this run", "all_reduce", {row_of(8, 10, 2), row_of(16, 10, 4)}, 3.0, {}};
  const Table log{"a.log", "", {row_of(16, 5, 8), row_of(32, 1, 1)}, std::nullopt, {7}};
  const std::string text = side_by_side({ours, log});
  EXPECT_THAT(text, HasSubstr("# [0] this run, all_reduce, average bus bandwidth 3 GB/s\n"));
  EXPECT_THAT(text, HasSubstr("# [1] a.log; line 7 is cut and was left out\n"));
  EXPECT_THAT(
      text, HasSubstr("\n           8     float     sum       10.0      2.00    1.00          -         -       -\n"));
  EXPECT_THAT(
      text, HasSubstr("\n          16     float     sum       10.0      4.00    1.00        5.0      8.00    2.00\n"));
}

TEST(CommTable, WhatCannotBeComparedIsLeftOutAndNamed) {
  const Table ours{"this run", "all_reduce", {row_of(8, 10, 2)}, 3.0, {}};
  const Table other{"a.log", "all_gather", {row_of(8, 5, 8)}, std::nullopt, {}};
  const Table apart{"b.log", "", {row_of(64, 5, 8)}, std::nullopt, {}};
  const std::string text = side_by_side({ours, other, apart});
  EXPECT_THAT(text, StartsWith("# left out: a.log, all_gather: no size, type and operation of it is in this run\n"
                               "# left out: b.log: no size"));
  EXPECT_THAT(text, HasSubstr("\n           8     float     sum       10.0      2.00    1.00\n"));
}

}  // namespace
}  // namespace trireme::comm_bench
