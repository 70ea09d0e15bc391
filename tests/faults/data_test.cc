// Token files that are wrong, or that change while they are read.

#include <fstream>

#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Data : public FaultFixture {
 protected:
  void append(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::app) << bytes;
  }
  Outcome train_once(const std::vector<std::string>& flags = {}) const {
    return run(trireme_command(train("run", flags)));
  }
};

TEST_F(Data, WrongFilesAreRefusedBeforeTheFirstStep) {
  append("train.bin", "x");
  Outcome outcome = train_once();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("train.bin has 40001 bytes, an odd number"));
  append("train.bin", std::string(1, '\xff'));  // token 0xff78 of a vocabulary of 31
  outcome = train_once();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, ContainsRegex("train.bin.*65400|65400.*train.bin"));
  std::string swapped = read_text(path("val.bin"));
  for (size_t i = 0; i + 1 < swapped.size(); i += 2) std::swap(swapped[i], swapped[i + 1]);
  write_text(path("train.bin"), swapped);
  outcome = train_once();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("looks like 16-bit ids in big-endian order; write the ids as 16 bits"));
  fs::resize_file(path("train.bin"), 0);
  outcome = train_once();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("train.bin is empty"));
  fs::resize_file(path("train.bin"), 32);  // one token short of a sample
  outcome = train_once();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("has 16 tokens, one sample needs 17"));
}

TEST_F(Data, AnIdThatTheSampleOfBlocksMissesIsFoundWithVerify) {
  // 48 blocks of 4 MiB are more than the 16 that every start reads; the wrong id is in one between those.
  fs::resize_file(path("train.bin"), 48u << 22);
  std::fstream stream(path("train.bin"), std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp((5 << 22) + 100).write("\xff\xff", 2);
  stream.close();
  const Outcome verified = train_once({"--data.verify", "--run.steps", "2"});
  EXPECT_EQ(verified.code, 1) << verified.output;
  EXPECT_THAT(verified.output, HasSubstr("65535"));
  EXPECT_THAT(verified.output, HasSubstr(std::to_string(((5 << 22) + 100) / 2)));
}

TEST_F(Data, AnIdThatTheSampleOfBlocksMissesIsNamedWithItsFileWhenASampleHoldsIt) {
  fs::resize_file(path("train.bin"), 48u << 22);
  std::fstream stream(path("train.bin"), std::ios::in | std::ios::out | std::ios::binary);
  // Blocks between the 16 that every start reads, with ids that the vocabulary of 31 has not: one sample in six has
  // one.
  const std::string ids(2u << 22, '\x28');
  for (const int block : {4, 5, 7, 8, 10, 11, 13, 14}) stream.seekp(int64_t{block} << 22).write(ids.data(), 1 << 22);
  stream.close();
  const Outcome outcome = train_once({"--run.steps", "200", "--evaluation.batches", "1"});
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output,
              ContainsRegex("train.bin: token [0-9]+ is id 10280, but the vocabulary has 31 ids \\(0 to "
                            "30\\): .*--data.verify"));
}

TEST_F(Data, AReplacedOrModifiedFileGivesOneWarning) {
  Program program(trireme_command(train("run", {"--run.steps", "1000000", "--log.every", "100"})));
  ASSERT_TRUE(wait_for_text(program, "step     100/"));
  append("train.bin", "xx");
  ASSERT_TRUE(wait_for_text(program, "train.bin was written to while this run was reading it"));
  fs::rename(path("val.bin"), path("moved.bin"));
  ASSERT_TRUE(wait_for_text(program, "val.bin was removed while this run was reading it"));
  kill(program.pid(), SIGTERM);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 75) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "warning: "), 2) << outcome.output;
}

TEST_F(Data, AFileThatIsCutShortEndsTheRunWithItsName) {
  // Either the next check of the files or the next read past the end comes first: both report it.
  Program program(trireme_command(train("run", {"--run.steps", "1000000", "--log.every", "100"})));
  ASSERT_TRUE(wait_for_text(program, "step     100/"));
  fs::resize_file(path("train.bin"), 4096);
  const Outcome outcome = program.finish();
  EXPECT_EQ(outcome.code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("error: .*was truncated.*restore the file"));
}

}  // namespace
}  // namespace trireme
