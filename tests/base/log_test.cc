#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log_form.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

/// What body() writes to standard error.
template <class Body>
std::string logged(Body body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

TEST(Log, AJobOfOneRankNeedsNoName) {
  EXPECT_EQ(logged([] { log::warning("the disk is {} % full", 90); }), "warning: the disk is 90 % full\n");
}

TEST(Log, AListenerGetsTheLinesOfTheConsole) {
  std::string heard;
  log::set_listener([&](std::string_view line) { heard += line, heard += '\n'; });
  const std::string shown = logged([] {
    log::warning("the disk is {} % full", 90);
    log::debug("not shown");
    const log::ThreadIdentity as({1, "rank 1"});
    log::info("of rank 0 only");
    log::error("a\x1b[2Jb");
  });
  log::set_listener({});
  EXPECT_EQ(heard, shown);
  EXPECT_EQ(heard, "warning: the disk is 90 % full\n[rank 1] error: ab\n");
  logged([] { log::warning("more"); });
  EXPECT_EQ(heard, shown);
}

TEST(Log, AFileGetsEveryLineWithItsTimeAndIsBounded) {
  const TemporaryFolder folder;
  const std::string path = folder / "log.txt";
  write_text(path, "of an earlier attempt\n");
  logged([&] {
    log::warning("before the file is known");
    log::add_file(path);
    log::warning("after");
  });
  EXPECT_THAT(
      read_text(path),
      testing::MatchesRegex("of an earlier attempt\n(.|\n)*20[^\n]*Z warning: before the file is known\n20[^\n]*Z "
                            "warning: after\n"));
  const std::string long_text(60000, 'x');
  logged([&] {
    for (int i = 0; i < 600; ++i) log::warning("{}", long_text);
  });
  EXPECT_EQ(std::filesystem::file_size(path) / (1 << 20), 2u);
  EXPECT_EQ(std::filesystem::file_size(path + ".1") / (1 << 20), 31u);
  EXPECT_THROW(log::add_file(folder.path()), Error);
}

TEST(Log, LinesMayBeginWithTheTime) {
  std::string heard;
  log::set_listener([&](std::string_view line) { heard += line; });
  log::set_line_form(log::LineForm::timed);
  const std::string shown = logged([] { log::warning("the disk is full:\nno room"); });
  log::set_line_form(log::LineForm::plain);
  log::set_listener({});
  const std::string time = "20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9][.][0-9][0-9][0-9]Z ";
  EXPECT_THAT(shown, testing::MatchesRegex(time + "warning: the disk is full:\n" + time + "no room\n"));
  EXPECT_EQ(heard, "warning: the disk is full:\nno room");
  EXPECT_EQ(logged([] { log::info("plain again"); }), "plain again\n");
}

TEST(Log, LinesMayBeJsonObjects) {
  log::set_line_form(log::LineForm::json);
  const std::string shown = logged([] {
    const log::ThreadIdentity as({2, "node7 2"});
    log::warning("the disk is \"full\":\nno room");
    log::error("lost");
  });
  log::set_line_form(log::LineForm::plain);
  const size_t end = shown.find('\n');
  const Json first = parse_json(shown.substr(0, end), "first"), second = parse_json(shown.substr(end + 1), "second");
  EXPECT_EQ(first["level"], "warning");
  EXPECT_EQ(first["priority"], 4);
  EXPECT_EQ(first["rank"], 2);
  EXPECT_EQ(first["message"], "the disk is \"full\":\nno room");
  EXPECT_THAT(first["time"].get<std::string>(), testing::EndsWith("Z"));
  EXPECT_EQ(second["level"], "error");
  EXPECT_EQ(second["priority"], 3);
}

TEST(Log, AThreadWithAnIdentityNamesItsRank) {
  EXPECT_EQ(logged([] {
              const log::ThreadIdentity as({2, "rank 2"});
              log::warning("the disk is full");
              log::info_all("going on");
            }),
            "[rank 2] warning: the disk is full\n[rank 2] going on\n");
}

TEST(Log, OnlyAThreadOfRankZeroWritesLinesLoggedOnce) {
  for (const int rank : {0, 1}) {
    const std::string text = logged([&] {
      std::thread([&] {
        const log::ThreadIdentity as({rank, "a rank"});
        log::info("starting from scratch");
      }).join();
    });
    EXPECT_EQ(text, rank == 0 ? "starting from scratch\n" : "");
  }
}

TEST(Log, AnIdentityEndsWithItsScopeAndBelongsToItsThreadAlone) {
  const log::ThreadIdentity outer({1, "outer"});
  {
    const log::ThreadIdentity inner({2, "inner"});
    EXPECT_EQ(log::identity().name, "inner");
    std::thread([] { EXPECT_EQ(log::identity().name, ""); }).join();
  }
  EXPECT_EQ(log::identity().name, "outer");
  EXPECT_EQ(log::identity().rank, 1);
}

TEST(Log, AThreadCanTakeOverItsStartersIdentity) {
  const log::ThreadIdentity as({3, "rank 3"});
  EXPECT_EQ(logged([] {
              std::thread([starter = log::identity()] {
                const log::ThreadIdentity own(starter);
                log::error("no");
              }).join();
            }),
            "[rank 3] error: no\n");
}

}  // namespace
}  // namespace trireme
