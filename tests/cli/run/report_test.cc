#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "cli/command.h"
#include "report/reporter.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

class ReportCommand : public testing::Test {
 protected:
  /// A run of one logged step.
  void make_run() {
    Reporter reporter({run_.path(), true, false}, 0, 10, {{"model", "tiny"}});
    Metrics metrics;
    metrics.step = 10;
    metrics.loss = 4.5;
    reporter.step(metrics);
    reporter.finish("done", 10);
  }
  std::string file(const char* name) const { return run_ / name; }

  TemporaryFolder run_;
};

TEST_F(ReportCommand, WritesThePageIntoTheRunFolder) {
  make_run();
  write_text(file("status.json"), R"({"state": "done", "code": 0, "host": "node7"})");
  write_text(file("samples.jsonl"), R"({"context": "In the", "text": " beginning"})");
  write_text(file("samples-before.jsonl"), R"({"context": "In the", "text": " dark"})");
  EXPECT_EQ(run_report({run_.path()}), 0);
  const std::string page = read_text(file("report.html"));
  EXPECT_THAT(page, testing::HasSubstr("<th>model</th><td>tiny</td>"));
  EXPECT_THAT(page, testing::HasSubstr("<th>status</th><td>state done, code 0, host node7</td>"));
  EXPECT_THAT(page, testing::HasSubstr("<b>In the</b> beginning"));
  EXPECT_LT(page.find("<b>In the</b> dark"), page.find("<b>In the</b> beginning"));
}

TEST_F(ReportCommand, WritesWhereOutputSays) {
  make_run();
  EXPECT_EQ(run_report({run_.path(), "--output", file("page.html")}), 0);
  EXPECT_TRUE(std::filesystem::exists(file("page.html")));
  EXPECT_FALSE(std::filesystem::exists(file("report.html")));
}

TEST_F(ReportCommand, ComparesSeveralRuns) {
  const TemporaryFolder bed;
  std::vector<std::string> runs;
  for (const char* folder : {"a/run", "b/run", "other"}) {
    std::filesystem::create_directories(bed / folder);
    ReporterOptions options{.run_dir = bed / folder, .tensorboard = false};
    options.configuration = fmt::format(R"({{"run": {{"dir": "{0}"}}, "optim": {{"clip": {1}, "beta1": 0.9}}}})",
                                        folder, folder[0] == 'b' ? 2 : 1);
    Reporter reporter(options, 0, 10, {{"model", "tiny"}, {"ranks", folder[0] == 'o' ? "2" : "1"}});
    Metrics metrics;
    metrics.step = 10;
    metrics.loss = 4.5;
    reporter.step(metrics);
    runs.push_back(bed / folder);
  }
  std::vector<std::string> words = runs;
  words.insert(words.end(), {"--output", bed / "page.html"});
  EXPECT_EQ(run_report(words), 0);
  const std::string page = read_text(bed / "page.html");
  EXPECT_THAT(page, testing::HasSubstr("<th scope=\"col\">a/run</th><th scope=\"col\">b/run</th>"));
  EXPECT_THAT(page, testing::HasSubstr("<th scope=\"row\">optim.clip</th><td>1</td><td>2</td><td>1</td>"));
  EXPECT_THAT(page, testing::HasSubstr("<th scope=\"row\">ranks</th><td>1</td><td>1</td><td>2</td>"));
  EXPECT_THAT(page, testing::HasSubstr("1 other option has the same value, not counting run.dir"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("<th scope=\"row\">model</th>")));

  EXPECT_ERROR(run_report({runs[0], runs[1], bed / "a/../a/run"}), ErrorKind::usage, "a/../a/run is given twice");
  EXPECT_ERROR(run_report({runs[0], runs[1], "--samples", "s.jsonl"}), ErrorKind::usage,
               "--samples belongs to one run, found 2 runs");
  EXPECT_ERROR(run_report({runs[0], runs[1], "--samples-before", "s.jsonl"}), ErrorKind::usage,
               "--samples belongs to one run, found 2 runs");
  EXPECT_ERROR(run_report(std::vector<std::string>(17, runs[0])), ErrorKind::usage,
               "report compares at most 16 runs, found 17");
  EXPECT_ERROR(run_report({runs[0], bed / "absent"}), ErrorKind::io, "the folder does not exist");
}

TEST_F(ReportCommand, NamesFoldersThatAreNotRuns) {
  EXPECT_ERROR(run_report({file("absent")}), ErrorKind::io, "is not a run folder: the folder does not exist");
  EXPECT_ERROR(run_report({run_.path()}), ErrorKind::io, "has no metrics.jsonl");
}

TEST_F(ReportCommand, NamesTheLineThatIsNotASample) {
  make_run();
  write_text(file("samples.jsonl"), "{\"context\": \"a\", \"text\": \"b\"}\n{\"context\": \"a\"}\n");
  EXPECT_ERROR(run_report({run_.path()}), ErrorKind::data, "samples.jsonl line 2: not a sample: expected");
}

TEST_F(ReportCommand, NeedsARun) {
  EXPECT_ERROR(run_report({}), ErrorKind::usage, "RUN is required");
  EXPECT_ERROR(run_report({"a", "--bad"}), ErrorKind::usage, "--bad");
}

}  // namespace
}  // namespace trireme
