#include "cluster/launch/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "cluster/launch/host_alias.h"
#include "tests/support/temporary_folder.h"

namespace trireme::launch {
namespace {

using testing::HasSubstr;

template <class F>
std::string reason(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Output, WhatMpirunRefusesOfItsHostfileIsKnown) {
  const std::vector<Placement> placement = {{"fd88::1", 1}};
  RankLogs no_logs("");
  const std::string edge(74, '-');
  const std::pair<const char*, const char*> boxes[] = {
      {"While trying to create a regular expression of the node names\nused in this application, the regex parser has "
       "detected the\npresence of an illegal character in the following node name:\n\n  node:  h%1\n",
       "it does not accept the name of a host: h%1"},
      {"Open RTE detected a parse error in the hostfile:\n    a\nIt occured on line number 1 on token 1.\n",
       "it cannot read its hostfile"},
      {"Open RTE detected a bad parameter in the hostfile:\n", "it cannot read its hostfile"},
      {"A hostfile was provided that contains multiple definitions\nof the slot count for at least one node:\n\n  "
       "hostfile:  a\n  node:      n1\n",
       "it mistakes two hosts for one: n1"},
      {"Some of the requested hosts are not included in the current allocation.\n",
       "its batch system did not allocate these hosts"},
      {"There are not enough slots available in the system to satisfy the 3\n", "its hostfile has too few slots"}};
  for (const auto& [text, meaning] : boxes) {
    OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
    EXPECT_EQ(prefixer.refusal(), "");
    prefixer.take(edge + "\n" + text + edge + "\n");
    EXPECT_EQ(prefixer.refusal(), meaning);
  }
  OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
  prefixer.take("[1,0]<stdout>:" + edge + "\n[1,0]<stdout>:detected a parse error in the hostfile\n");
  EXPECT_EQ(prefixer.refusal(), "") << "a rank said it";
  EXPECT_TRUE(prefixer.has_output());
}

TEST(Output, TracesOfMpirunAreKeptBack) {
  const std::vector<Placement> placement = {{"n1", 1}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
  const char* traces[] = {"[h2:01234] [[57735,0],1] ORTE_ERROR_LOG: Not found in file ess_base.c at line 302",
                          "[h1:99] PMIX ERROR: UNREACHABLE in file ../src/server.c at line 1",
                          "[h1:99] *** Process received signal ***", "[h1:99] Signal: Segmentation fault (11)",
                          "[h1:99] [ 2] /lib/libopen-rte.so.40(orte_init+0x31)[0x7f12]"};
  for (const char* line : traces) EXPECT_EQ(prefixer.take(std::string(line) + "\n"), "") << line;
  EXPECT_THAT(prefixer.traces(), HasSubstr("mpirun: [h1:99] Signal: Segmentation fault"));
  const std::string edge(74, '-');
  EXPECT_EQ(
      prefixer.take(edge + "\nAn internal error has occurred in ORTE:\n\n[[1,0],0] FORCE-TERMINATE AT (null):1\n" +
                    edge + "\n"),
      "");
  EXPECT_EQ(prefixer.take("[h1:99] 1 more process has sent help message\n"),
            "mpirun: [h1:99] 1 more process has sent help message\n");
  EXPECT_EQ(prefixer.take("[1,0]<stdout>:[h1:99] PMIX ERROR: mine\n"), "n1[0] [h1:99] PMIX ERROR: mine\n");
  EXPECT_FALSE(OutputPrefixer(StarterKind::open_mpi, placement, no_logs).has_output());
}

TEST(Output, TheTimeIsPrefixedOnRequest) {
  const std::vector<Placement> placement = {{"n1", 1}};
  TemporaryFolder folder;
  RankLogs logs(folder / "logs");
  OutputPrefixer prefixer(StarterKind::hydra, placement, logs, true);
  constexpr const char* kTime = "^20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3} ";
  EXPECT_THAT(prefixer.take("[0]error: x\n"), testing::ContainsRegex(std::string(kTime) + "n1\\[0\\] error: x\n$"));
  EXPECT_THAT(prefixer.take("own words\n"), testing::ContainsRegex(std::string(kTime) + "mpirun: own words\n$"));
  EXPECT_THAT(read_text(folder / "logs/rank-0000.log"), testing::ContainsRegex(std::string(kTime) + "error: x\n$"));
  EXPECT_THAT(read_text(folder / "logs/starter.log"), testing::ContainsRegex(std::string(kTime) + "own words\n$"));
}

std::string line_of(const RankRecord& record) { return to_line(record) + "\n"; }

TEST(Output, AHostWhoseDaemonMpirunLostIsALostRank) {
  const std::vector<Placement> placement = {{"h1", 2}, {"ann@h2", 2}, {"w.3.example.net", 1}};
  const std::string edge(76, '-');
  const std::pair<const char*, const char*> boxes[] = {
      {"ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[5437,0],0] on node h1\n"
       "  Remote daemon: [[5437,0],1] on node ",
       "\n\nThis is usually due to either a failure of the TCP network\nconnection to the node"},
      {"PRTE has lost communication with a remote daemon.\n  HNP daemon   : [prterun-h1-7411@0,0] on node h1\n"
       "  Remote daemon: [prterun-h1-7411@0,2] on node ",
       "\nThis is usually due to either a failure of the TCP network\nconnection to the node"}};
  for (const StarterKind kind : {StarterKind::open_mpi, StarterKind::prrte}) {
    const auto& [begin, end] = boxes[kind == StarterKind::prrte ? 1 : 0];
    const std::pair<std::string, std::optional<int>> hosts[] = {
        {"h2", 2}, {name_for_starter(kind, "w.3.example.net"), 4}, {"h9", std::nullopt}};
    for (const auto& [host, rank] : hosts) {
      RankLogs logs("");
      OutputPrefixer prefixer(kind, placement, logs);
      prefixer.take(edge + "\n" + begin + host + end + "\n" + edge + "\n");
      EXPECT_EQ(prefixer.lost() ? std::optional(prefixer.lost()->rank) : std::nullopt, rank) << host;
    }
  }
}

TEST(Output, RecordsOfRanksAreReadAndNotPassedOn) {
  const std::vector<Placement> placement = {{"n1", 1}, {"n2", 2}};
  TemporaryFolder folder;
  RankLogs logs(folder / "logs");
  OutputPrefixer prefixer(StarterKind::hydra, placement, logs);
  EXPECT_EQ(prefixer.take("[2]" + line_of({.kind = RankRecord::Kind::arrived})), "");
  EXPECT_EQ(prefixer.arrived(), std::set<int>{2});
  EXPECT_TRUE(prefixer.has_output());
  EXPECT_EQ(prefixer.take("[1]error: rank 0 on n1 was lost (as a sample says) in step 1\n"),
            "n2[1] error: rank 0 on n1 was lost (as a sample says) in step 1\n");
  EXPECT_EQ(prefixer.first_error(), std::nullopt) << "what a rank prints is not a record";
  EXPECT_EQ(prefixer.lost(), std::nullopt);
  EXPECT_EQ(prefixer.take("[2]" + line_of({.kind = RankRecord::Kind::lost, .rank = 1, .host = "n2"}) + "[2]" +
                          line_of({.kind = RankRecord::Kind::error, .text = "[n2 2] error: x"}) +
                          "[2][n2 2] error: x\n[0]" + line_of({.kind = RankRecord::Kind::lost, .rank = 2}) + "[0]" +
                          line_of({.kind = RankRecord::Kind::error, .text = "error: y"})),
            "n2[2] [n2 2] error: x\n");
  ASSERT_TRUE(prefixer.lost());
  EXPECT_EQ(prefixer.lost()->rank, 1) << "the first one counts";
  EXPECT_EQ(prefixer.first_error(), "n2[2] [n2 2] error: x");
  EXPECT_EQ(read_text(folder / "logs/rank-0002.log"), "[n2 2] error: x\n");
}

TEST(Output, ALostConnectionCountsBeforeALostRank) {
  const std::vector<Placement> placement = {{"n1", 1}, {"n2", 1}, {"n3", 1}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::hydra, placement, no_logs);
  prefixer.take("[1]" + line_of({.kind = RankRecord::Kind::lost, .rank = 0, .host = "n1"}));
  const RankRecord pair{.kind = RankRecord::Kind::lost, .rank = 1, .host = "n2", .text = "no heartbeat", .other = 0};
  prefixer.take("[0]" + line_of(pair));
  EXPECT_EQ(prefixer.lost(), pair);
  prefixer.take("[2]" + line_of({.kind = RankRecord::Kind::lost, .rank = 2, .other = 1}));
  EXPECT_EQ(prefixer.lost(), pair) << "the first one counts";
}

TEST(Output, RecordsOfOtherProcessesAreNotPassedOn) {
  const std::vector<Placement> placement = {{"n1", 1}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
  EXPECT_EQ(
      prefixer.take(line_of({.kind = RankRecord::Kind::error, .text = "error: host n1: there is no route to it"})), "");
  EXPECT_EQ(prefixer.first_error(), std::nullopt) << "no rank told it";
}

TEST(Output, LinesOfForeignProgramsAreReadForErrors) {
  const std::vector<Placement> placement = {{"n1", 2}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::hydra, placement, no_logs, false, true);
  prefixer.take("[0]no errors\n[1]error: disk on fire\n[0]error: another\n");
  EXPECT_EQ(prefixer.first_error(), "n1[1] error: disk on fire");
}

TEST(RankLogs, RefuseAnImpossibleFolder) {
  TemporaryFolder folder;
  write_text(folder / "file", "");
  for (const std::string& path :
       {std::string("/proc/x"), std::string("/proc/x/y"), folder / "file", folder / "file/below"}) {
    EXPECT_THAT(reason([&] { RankLogs logs(path); }),
                testing::AllOf(HasSubstr("--log-dir " + path + ": cannot write to this folder: "),
                               HasSubstr("name another folder")));
  }
  EXPECT_EQ(reason([&] { RankLogs logs(folder / "a/b"); }), "no error");
}

}  // namespace
}  // namespace trireme::launch
