#include "train/sft/data_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

chat::CodedIds ten() {
  chat::CodedIds made;
  for (int32_t i = 0; i < 10; ++i) made.add(std::vector<int32_t>{i, i});
  return made;
}

size_t taken(const DataPart& part, size_t each = 1) { return taken_of(ten(), part, 7, each).size(); }

TEST(DataParts, ReadsNamesCountsAndWeights) {
  const std::vector<DataPart> parts = data_parts("--data", "a.jsonl, owner/set=200,b.jsonl=0.5");
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].name, "a.jsonl");
  EXPECT_EQ(parts[1].name, "owner/set");
  EXPECT_EQ(parts[1].count, 200U);
  EXPECT_EQ(parts[2].name, "b.jsonl");
  EXPECT_EQ(parts[2].weight, 0.5);
  EXPECT_FALSE(parts[2].count.has_value());
  for (const char* bad : {"a=x", "a=0", "a=-1.0", "a=", "a,,b", "=3"})
    EXPECT_THROW(data_parts("--data", bad), Error) << bad;
  EXPECT_ERROR(data_parts("--data", "a=2x"), ErrorKind::config, "--data: \"a=2x\": expected FILE, FILE=N for N of");
}

TEST(DataParts, APathMayHaveTheirSigns) {
  const TemporaryFolder folder;
  write_text(folder / "a=1,b.jsonl", "{}");
  const std::vector<DataPart> parts = data_parts("--data", folder / "a=1,b.jsonl");
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0].name, folder / "a=1,b.jsonl");
}

TEST(DataParts, TakesSharesAndRepeats) {
  EXPECT_EQ(taken({.name = "a", .count = {}}), 10U);
  EXPECT_EQ(taken({.name = "a", .count = 4}), 4U);
  EXPECT_EQ(taken({.name = "a", .count = 40}), 10U);
  EXPECT_EQ(taken({.name = "a", .count = {}, .weight = 0.3}), 3U);
  EXPECT_EQ(taken({.name = "a", .count = {}, .weight = 2.5}), 25U);
  EXPECT_EQ(taken({.name = "a", .count = 2}, 2), 4U);  // pairs stay together
  const chat::CodedIds pairs = taken_of(ten(), {.name = "a", .count = 2}, 7, 2);
  EXPECT_EQ(pairs.at(0)[0] / 2, pairs.at(1)[0] / 2);
}

TEST(DataParts, FindsTheFilesOfAFolder) {
  const TemporaryFolder folder;
  for (const char* name : {"b.jsonl", "a.json.gz", "README.md", "c.parquet"}) write_text(folder / name, "");
  EXPECT_THAT(files_in_folder(folder.path()),
              testing::ElementsAre(folder / "a.json.gz", folder / "b.jsonl", folder / "c.parquet"));
  std::filesystem::create_directory(folder / "none");
  EXPECT_ERROR(files_in_folder(folder / "none"), ErrorKind::io, "none has no file of conversations");
}

}  // namespace
}  // namespace trireme
