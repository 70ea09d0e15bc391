#include "bench/comm/table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
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

/// A log of two sizes. each: what is before every line, by its number.
std::string log_with(const std::function<std::string(int line)>& each, double first = 1) {
  const std::string text = "# Collective test starting: all_reduce_perf\n" + table_header() +
                           to_text(row_of(8, 99.5, first)) + to_text(row_of(1024, 17.9, 2 * first)) +
                           "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.25 OK\n";
  std::string all;
  int line = 0;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
    all += each(line++) + text.substr(at, text.find('\n', at) + 1 - at);
  return all;
}

TEST(CommTable, IsReadBehindWhateverIsBeforeItsLines) {
  for (const char* before : {"",
                             "h1[0] ",
                             "12:00:07 h1[0] ",
                             "0: ",
                             "[1,0]<stdout>:",
                             "[0] ",
                             "[mpiexec@h1] ",
                             "rank-0 | ",
                             "2026-03-01T10:11:12.123456789Z ",
                             "2026-03-01T10:11:12.123456789Z stdout F ",
                             "pod/worker-0/main: ",
                             "Mar  1 10:11:12 node17 app[4711]: ",
                             "[   12.345678] ",
                             "2026-03-01 10:11:12,123 INFO ",
                             "ip-10-0-0-12: ",
                             "10.0.0.12 ",
                             "job#3 ",
                             "(pid=17) ",
                             "0 ",
                             "3> ",
                             "\t"}) {
    const auto tables = parse_tables(log_with([&](int) { return before; }), "f");
    ASSERT_EQ(tables.size(), 1u) << before;
    EXPECT_EQ(tables[0].collective, "all_reduce") << before;
    ASSERT_EQ(tables[0].rows.size(), 2u) << before;
    EXPECT_EQ(tables[0].rows[1].bytes, 1024) << before;
    EXPECT_EQ(tables[0].average_bus_bandwidth, 1.25) << before;
    EXPECT_THAT(tables[0].skipped_lines, ElementsAre()) << before;
  }
  const auto tables = parse_tables(log_with([](int line) { return fmt::format("10:11:{:02}.{} ", line, line); }), "f");
  ASSERT_EQ(tables.size(), 1u) << "a time that goes on";
  EXPECT_EQ(tables[0].rows.size(), 2u);
}

/// Lines of several logs, one of each in turn.
std::string in_turn(std::vector<std::string> logs) {
  std::string all;
  while (!logs[0].empty()) {
    for (std::string& log : logs) {
      const size_t end = log.find('\n') + 1;
      all += log.substr(0, end);
      log.erase(0, end);
    }
  }
  return all;
}

TEST(CommTable, RanksThatPrintInTurnHaveATableEach) {
  const auto log_of = [](const char* before, double rate) { return log_with([=](int) { return before; }, rate); };
  const std::vector<std::vector<std::string>> cases{
      {log_of("h1[0] ", 1), log_of("h1[1] ", 3)},
      {log_of("[1,0]<stdout>:", 1), log_of("[1,1]<stdout>:", 3)},
      {log_of("", 1), log_of("", 3)},
      {log_of("2026-03-01T10:11:12.1Z w0 ", 1), log_of("2026-03-01T10:11:12.1Z w1 ", 3)}};
  for (const auto& logs : cases) {
    const auto tables = parse_tables(in_turn(logs), "f");
    ASSERT_EQ(tables.size(), 2u) << logs[0];
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(tables[i].rows.size(), 2u) << logs[i];
      EXPECT_DOUBLE_EQ(tables[i].rows[0].out_of_place->bus_bandwidth, i == 0 ? 1 : 3);
      EXPECT_DOUBLE_EQ(tables[i].rows[1].out_of_place->bus_bandwidth, i == 0 ? 2 : 6);
      EXPECT_TRUE(tables[i].average_bus_bandwidth);
    }
  }
  const auto after = parse_tables(log_of("", 1) + log_of("", 3), "f");
  ASSERT_EQ(after.size(), 2u) << "one after the other";
  EXPECT_DOUBLE_EQ(after[1].rows[0].out_of_place->bus_bandwidth, 3);
}

TEST(CommTable, WrongResultsAreSaid) {
  Row wrong = row_of(1024, 17.9, 2);
  wrong.out_of_place->wrong = 37;
  const std::string rows = table_header() + to_text(row_of(8, 99.5, 1)), end = "# Avg bus bandwidth    : 1.25\n";
  const auto counted = parse_tables(rows + to_text(wrong) + end, "a.log");
  EXPECT_EQ(wrong_results(counted[0]), 37);
  EXPECT_THAT(side_by_side(counted), HasSubstr("a.log, average bus bandwidth 1.25 GB/s; WRONG RESULTS: 37 values\n"));
  const auto unchecked = parse_tables(rows + "# Out of bounds values : 2 FAILED\n" + end, "a.log");
  EXPECT_EQ(wrong_results(unchecked[0]), 2) << "the footer counts them, too";
  const auto right = parse_tables(rows + "# Out of bounds values : 0 OK\n" + end, "a.log");
  EXPECT_EQ(wrong_results(right[0]), 0);
  EXPECT_THAT(side_by_side(right), testing::Not(HasSubstr("WRONG")));
}

TEST(CommTable, LogsOfClustersAreReadAsTheyAre) {
  TRIREME_NEEDS_TEST_DATA("field4/nccl");
  const auto read = [](const std::string& name) {
    const auto tables = parse_tables(read_text(test_data_dir() / "field4/nccl" / name), name);
    EXPECT_EQ(tables.size(), 1u) << name;
    EXPECT_EQ(tables[0].rows.size(), 5u) << name;
    return tables[0];
  };
  EXPECT_EQ(wrong_results(read("n05-k8s-timestamps.log")), 0);
  EXPECT_EQ(wrong_results(read("n22-own-prefix.log")), 0);
  EXPECT_EQ(wrong_results(read("n09-wrong.log")), 74);
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

struct Form {
  const char* what;
  std::string text;
  bool in_place = true, out_of_place = true;
};

/// One row of 1048576 bytes: 28.15 us, 65.19 GB/s out of place; 27.52 us, 66.67 GB/s in place.
std::vector<Form> forms() {
  const std::string size = "     1048576        262144     float     sum      -1";
  const std::string out = "    28.15   37.25   65.19      0", in = "    27.52   38.10   66.67      0";
  const std::string columns = "#       size         count      type   redop    root     time   algbw   busbw #wrong";
  const std::string record =
      R"({"size": 1048576, "count": 262144, "type": "float", "redop": "sum", "root": "-1", "out_of_place": {"time": 28.15, )"
      R"("alg_bw": 37.25, "bus_bw": 65.19, "nwrong": 0.0}, "in_place": {"time": 27.52, "alg_bw": 38.1, "bus_bw": 66.67, )"
      R"("nwrong": null}})";
  const auto mode = [](int in_place, const char* time, const char* bus) {
    return fmt::format(R"({{"numCycle": 1, "name": "AllReduce", "ranks": 8, "size": 1048576, "type": "float", )"
                       R"("redop": "sum", "inPlace": {}, "time": {}, "algBw": 37.25, "busBw": {}, "wrong": "0"}})",
                       in_place, time, bus);
  };
  return {
      {"rccl-tests", "rccl-tests: Version develop:83d38d9\n#            out-of-place          in-place\n" + columns +
                         "     time   algbw   busbw #wrong\n" + size + out + in + "\n"},
      {"rccl-tests -O 0: in place only", "#                 in-place          \n" + columns + "\n" + size + in + "\n",
       true, false},
      {"CPU times",
       "#    out-of-place    in-place\n#  size count type redop root  cputime algbw busbw #wrong  cputime algbw "
       "busbw #wrong\n" +
           size + out + in + "\n"},
      {"times of iterations",
       "#       size         count      type   redop    root     time   algbw   busbw #wrong i_min i_max i_p99 i_cv%   "
       "  time "
       "  algbw   busbw #wrong i_min i_max i_p99 i_cv%\n" +
           size + out + "  27.1 30.2 30.0 1.1" + in + "  27.1 30.2 30.0 1.1\n"},
      {"times of day",
       columns + "     time   algbw   busbw #wrong           timestamp\n" + size + out + in + " 2025-08-01 10:11:12\n"},
      {"out of place left blank",
       columns + "     time   algbw   busbw #wrong\n" + size + "                                " + in + "\n", true,
       false},
      {"before roots and counts of wrong values",
       "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res\n"
       "     1048576        262144   float     sum    28.15  37.25  65.19    2e-07    27.52  38.10  66.67    2e-07\n"},
      {"nccl-tests -J", R"({"version": 3, "args": ["./build/all_reduce_perf", "-b", "8"], "results": [)" + record +
                            R"(], "average_bus_bandwidth": {"bandwidth": 65.9, "okay": "unchecked"}})"},
      {"rccl-tests -Z json", "[" + mode(0, "28.15", "65.19") + ",\n" + mode(1, "27.52", "66.67") + "]\n"},
      {"rccl-tests -Z csv",
       "numCycle,name,nodes,ranks,ranksPerNode,gpusPerRank,size,type,redop,inPlace,time,algBw,busBw,wrong\n"
       "1,AllReduce,1,8,8,1,1048576,float,sum,0,28.15,37.25,65.19,0\n"
       "1,AllReduce,1,8,8,1,1048576,float,sum,1,27.52,38.10,66.67,0\n"},
  };
}

TEST(CommTable, ReadsEveryFormOfNcclTestsAndRcclTests) {
  for (const Form& form : forms()) {
    const auto tables = parse_tables(form.text, form.what);
    ASSERT_EQ(tables.size(), 1u) << form.what;
    ASSERT_EQ(tables[0].rows.size(), 1u) << form.what;
    EXPECT_THAT(tables[0].skipped_lines, ElementsAre()) << form.what;
    const Row& row = tables[0].rows[0];
    EXPECT_EQ(row.bytes, 1048576) << form.what;
    EXPECT_EQ(row.op, "sum") << form.what;
    EXPECT_EQ(row.root, -1) << form.what;
    ASSERT_EQ(row.out_of_place.has_value(), form.out_of_place) << form.what;
    if (row.out_of_place) {
      EXPECT_EQ(row.out_of_place->microseconds, 28.15) << form.what;
      EXPECT_EQ(row.out_of_place->bus_bandwidth, 65.19) << form.what;
      EXPECT_TRUE(row.out_of_place->wrong) << form.what;
    }
    ASSERT_TRUE(row.in_place) << form.what;
    EXPECT_EQ(row.in_place->bus_bandwidth, 66.67) << form.what;
  }
  EXPECT_EQ(parse_tables(forms()[7].text, "j")[0].collective, "all_reduce");
  EXPECT_EQ(parse_tables(forms()[7].text, "j")[0].average_bus_bandwidth, 65.9);
  EXPECT_EQ(parse_tables(forms()[8].text, "j")[0].collective, "all_reduce");
}

TEST(CommTable, OurOwnJsonIsReadBackByCollective) {
  Json document{
      {"version", 3}, {"results", Json::array()}, {"average_bus_bandwidth", {{"bandwidth", 1.5}, {"okay", true}}}};
  for (const char* collective : {"all_reduce", "gradient", "all_reduce"}) {
    document["results"].push_back(to_json(row_of(1024, 17.93, 3.5)));
    document["results"].back()["collective"] = collective;
  }
  document["results"][1]["out_of_place"] = nullptr;
  const auto tables = parse_tables(document.dump(1), "mine.json");
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].rows.size(), 2u);
  EXPECT_EQ(tables[0].collective, "all_reduce");
  EXPECT_FALSE(tables[0].average_bus_bandwidth) << "it is of both";
  EXPECT_EQ(tables[1].collective, "gradient");
  EXPECT_FALSE(tables[1].rows[0].out_of_place);
  EXPECT_EQ(tables[0].rows[0].in_place->microseconds, 2 * 17.93);
  for (const char* none : {"{}", "{\"results\": []}", "[{}]", "[]", "busBw,size\n"}) {
    EXPECT_THROW(parse_tables(none, "f.json"), Error) << none;
  }
}

TEST(CommTable, CutLinesAreNamedAndFilesWithoutATableRefused) {
  const std::string text = "n1:12 [0] NCCL INFO hello\n" + table_header() + to_text(row_of(8, 1, 1)) +
                           "        1024           256     float     sum      -1    17.93\n" +
                           "3: " + to_text(row_of(16, 1, 1));
  const auto tables = parse_tables(text, "f");
  EXPECT_THAT(tables[0].skipped_lines, ElementsAre(6));
  EXPECT_EQ(tables[0].rows.size(), 2u) << "the tag of srun --label is taken off";
  EXPECT_ERROR(parse_tables("hello\n", "f.log"), ErrorKind::data, "f.log: has no table of nccl-tests");
  EXPECT_ERROR(parse_tables(table_header(), "f.log"), ErrorKind::data, "with rows below it");
}

TEST(CommTable, SeveralAreComparedBySize) {
  const Table ours{"this run", "all_reduce", {row_of(8, 10, 2), row_of(16, 10, 4)}, 3.0, {}};
  const Table log{"a.log", "", {row_of(16, 5, 8), row_of(32, 1, 1)}, std::nullopt, {7}};
  const std::string text = side_by_side({ours, log});
  EXPECT_THAT(text, HasSubstr("# [0] this run, all_reduce, average bus bandwidth 3 GB/s\n"));
  EXPECT_THAT(text, HasSubstr("# [1] a.log; line 7 is incomplete and was skipped\n"));
  EXPECT_THAT(
      text, HasSubstr("\n           8     float     sum       10.0      2.00    1.00          -         -       -\n"));
  EXPECT_THAT(
      text, HasSubstr("\n          16     float     sum       10.0      4.00    1.00        5.0      8.00    2.00\n"));
}

TEST(CommTable, TablesThatCannotBeComparedAreSkippedAndNamed) {
  const Table ours{"this run", "all_reduce", {row_of(8, 10, 2)}, 3.0, {}};
  const Table other{"a.log", "all_gather", {row_of(8, 5, 8)}, std::nullopt, {}};
  const Table apart{"b.log", "", {row_of(64, 5, 8)}, std::nullopt, {}};
  const std::string text = side_by_side({ours, other, apart});
  EXPECT_THAT(text, StartsWith("# skipped: a.log, all_gather: none of its sizes, types and operations is in this "
                               "run\n# skipped: b.log: none"));
  EXPECT_THAT(text, HasSubstr("\n           8     float     sum       10.0      2.00    1.00\n"));
}

}  // namespace
}  // namespace trireme::comm_bench
