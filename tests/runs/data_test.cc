// `trireme data` as a user calls it.

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/runs/program.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class DataRuns : public testing::Test {
 protected:
  DataRuns() {
    write_text(folder_ / "a.jsonl", "{\"text\": \"one two\"}\n{\"text\": \"\"}\n{\"text\": \"three\"}\n");
    write_text(folder_ / "b.jsonl", "{\"text\": \"four five six\"}\n");
    write_text(folder_ / "ab.jsonl", read_text(folder_ / "a.jsonl") + read_text(folder_ / "b.jsonl"));
    EXPECT_EQ(call({"tokenizer", "train", "--input", folder_ / "ab.jsonl", "--vocab-size", "270", "--output",
                    folder_ / "tok"})
                  .code,
              0);
    for (const char* name : {"a", "b", "ab"})
      EXPECT_EQ(call({"prepare", "--format", "megatron", "--input", folder_ / (std::string(name) + ".jsonl"),
                      "--tokenizer", folder_ / "tok", "--append-eod", "--output", folder_ / name})
                    .code,
                0);
    EXPECT_EQ(call({"prepare", "--input", folder_ / "a.jsonl", "--tokenizer", folder_ / "tok", "--val-fraction", "0",
                    "--output", folder_ / "data"})
                  .code,
              0);
  }
  static Outcome call(std::vector<std::string> words) { return run(trireme_command(std::move(words))); }

  TemporaryFolder folder_;
};

TEST_F(DataRuns, InspectShowsBothFormats) {
  const Outcome tokens = call({"data", "inspect", folder_ / "data/train.bin"});
  EXPECT_EQ(tokens.code, 0) << tokens.output;
  EXPECT_THAT(tokens.output, HasSubstr("format      token file of nanoGPT, 16-bit ids"));
  EXPECT_THAT(tokens.output, HasSubstr("\"one two<|endoftext|><|endoftext|>three<|endoftext|>\""));
  EXPECT_THAT(tokens.output, HasSubstr("documents   3, of 1 to "));
  const Outcome indexed = call({"data", "inspect", folder_ / "a_text_document.idx", "--tokenizer", folder_ / "tok"});
  EXPECT_EQ(indexed.code, 0) << indexed.output;
  EXPECT_THAT(indexed.output, HasSubstr("indexed dataset of Megatron and NeoX, 16-bit ids"));
  EXPECT_THAT(indexed.output, HasSubstr("documents   3, of 1 to "));
  EXPECT_THAT(indexed.output, HasSubstr("\"one two<|endoftext|><|endoftext|>three<|endoftext|>\""));
  EXPECT_THAT(call({"data", "inspect", folder_ / "none.bin"}).output, HasSubstr("cannot open"));
}

TEST_F(DataRuns, VerifyFindsAChangedByte) {
  const Outcome good = call({"data", "verify", folder_ / "data", folder_.path()});
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_THAT(good.output, HasSubstr("ab_text_document.bin: good: "));
  EXPECT_THAT(good.output, HasSubstr("in 1 blocks, as their checksums say"));
  std::string bytes = read_text(folder_ / "a_text_document.bin");
  bytes[2] = static_cast<char>(bytes[2] ^ 1);
  write_text(folder_ / "a_text_document.bin", bytes);
  const Outcome bad = call({"data", "verify", folder_.path()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.output, HasSubstr("a_text_document.bin: bad: "));
  EXPECT_THAT(bad.output, HasSubstr("the file was changed or damaged after it was prepared"));
  EXPECT_THAT(bad.output, HasSubstr("b_text_document.bin: good: "));
}

TEST_F(DataRuns, VerifyTakesNoText) {
  const Outcome text = call({"data", "verify", folder_ / "a.jsonl"});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.output, HasSubstr("a.jsonl: bad: it is no token file"));
  EXPECT_THAT(call({"data", "verify", folder_ / "none"}).output, HasSubstr("cannot open"));
}

TEST_F(DataRuns, MergeGivesWhatPreparingTheJoinedInputGives) {
  const Outcome merged =
      call({"data", "merge", "--input", folder_ / "a_text_document" + "," + (folder_ / "b_text_document"), "--output",
            folder_ / "joined"});
  EXPECT_EQ(merged.code, 0) << merged.output;
  for (const char* ending : {".bin", ".idx", ".bin.json"})
    EXPECT_EQ(read_text(folder_ / "joined" + ending), read_text(folder_ / "ab_text_document" + ending)) << ending;
  const Outcome one = call({"data", "merge", "--input", folder_ / "a_text_document", "--output", folder_ / "x"});
  EXPECT_EQ(one.code, 2);
  EXPECT_THAT(one.output, HasSubstr("joining takes two or more"));
  EXPECT_THAT(call({"data", "merge", "--input", folder_ / "a_text_document", folder_ / "data/train.bin", "--output",
                    folder_ / "x"})
                  .output,
              HasSubstr("train.bin is no indexed dataset: there is no .idx file of that name"));
}

TEST_F(DataRuns, IndexWritesNeoxsNames) {
  const Outcome made = call({"data", "index", "--prefix", folder_ / "a_text_document", "--name", "train", "--samples",
                             "5", "--seq", "4", "--seed", "1", "--output", folder_ / "idx"});
  EXPECT_EQ(made.code, 0) << made.output;
  for (const char* name : {"doc", "sample", "shuffle"})
    EXPECT_TRUE(std::filesystem::exists(
        folder_ / fmt::format("idx/a_text_document_train_indexmap_5ns_4sl_1s_packedpi_ac_{}_idx.npy", name)));
  for (const char* ending : {".bin", ".idx"}) {
    const std::string output = folder_ / (std::string("by") + ending);
    const Outcome by_file = call({"data", "index", "--prefix", folder_ / "a_text_document" + ending, "--samples", "5",
                                  "--seq", "4", "--seed", "1", "--output", output});
    EXPECT_EQ(by_file.code, 0) << by_file.output;
    EXPECT_TRUE(std::filesystem::exists(output + "/a_text_document_train_indexmap_5ns_4sl_1s_packedpi_ac_doc_idx.npy"));
  }
  EXPECT_THAT(call({"data", "index", "--prefix", folder_ / "data/train.bin", "--samples", "5", "--seq", "4"}).output,
              HasSubstr("train.bin is no indexed dataset: there is no .idx file of that name"));
  EXPECT_THAT(call({"data", "index", "--prefix", folder_ / "a_text_document", "--name", "test", "--samples", "5",
                    "--seq", "4", "--split", "969,30"})
                  .output,
              HasSubstr("the part \"test\" has no documents under that split; give it a larger share"));
  EXPECT_THAT(call({"data", "index", "--prefix", folder_ / "a_text_document", "--name", "dev", "--samples", "5",
                    "--seq", "4", "--split", "9,1"})
                  .output,
              HasSubstr("--name is dev; with --split it is train, valid or test"));
}

}  // namespace
}  // namespace trireme
