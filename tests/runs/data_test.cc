// `trireme data` as a user calls it.

#include <gmock/gmock.h>

#include <cstdint>
#include <cstring>
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
  EXPECT_THAT(tokens.output, HasSubstr("format      nanoGPT token file, 16-bit ids"));
  EXPECT_THAT(tokens.output, HasSubstr("\"one two<|endoftext|><|endoftext|>three<|endoftext|>\""));
  EXPECT_THAT(tokens.output, HasSubstr("documents   3, of 1 to "));
  const Outcome indexed = call({"data", "inspect", folder_ / "a_text_document.idx", "--tokenizer", folder_ / "tok"});
  EXPECT_EQ(indexed.code, 0) << indexed.output;
  EXPECT_THAT(indexed.output, HasSubstr("Megatron and NeoX indexed dataset, 16-bit ids"));
  EXPECT_THAT(indexed.output, HasSubstr("documents   3, of 1 to "));
  EXPECT_THAT(indexed.output, HasSubstr("\"one two<|endoftext|><|endoftext|>three<|endoftext|>\""));
  EXPECT_THAT(call({"data", "inspect", folder_ / "none.bin"}).output, HasSubstr("cannot open"));
}

TEST_F(DataRuns, VerifyFindsAChangedByte) {
  const Outcome good = call({"data", "verify", folder_ / "data", folder_.path()});
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_THAT(good.output, HasSubstr("ab_text_document.bin: good: "));
  EXPECT_THAT(good.output, HasSubstr("in 1 blocks match their checksums"));
  std::string bytes = read_text(folder_ / "a_text_document.bin");
  bytes[2] = static_cast<char>(bytes[2] ^ 1);
  write_text(folder_ / "a_text_document.bin", bytes);
  const Outcome bad = call({"data", "verify", folder_.path()});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.output, HasSubstr("a_text_document.bin: bad: "));
  EXPECT_THAT(bad.output, HasSubstr("the file was changed or damaged after preparation"));
  EXPECT_THAT(bad.output, HasSubstr("b_text_document.bin: good: "));
}

/// Training, its validation, inspection, checks and joining look at a file before they believe it.
TEST_F(DataRuns, ForeignFilesAreNamedWhereverTheyAreRead) {
  std::vector<uint32_t> wide;
  for (uint32_t i = 0; i < 3000; ++i) wide.push_back(i * 37 % 270);
  const std::string wide_ids(reinterpret_cast<const char*>(wide.data()), wide.size() * sizeof(uint32_t));
  std::string shard(1024, '\0');
  const int32_t header[] = {20240520, 1, 3000};
  std::memcpy(shard.data(), header, sizeof header);
  for (const uint32_t id : wide) shard += std::string{static_cast<char>(id & 0xFF), static_cast<char>(id >> 8)};
  const std::string good = folder_ / "data/train.bin";
  const auto train = [&](const std::string& data, const std::string& validation, std::vector<std::string> more) {
    std::vector<std::string> words{"train",
                                   "--data.train",
                                   data,
                                   "--data.validation",
                                   validation,
                                   "--data.tokenizer",
                                   folder_ / "tok",
                                   "--run.dir",
                                   folder_ / "run",
                                   "--run.steps",
                                   "1",
                                   "--run.overwrite",
                                   "true",
                                   "--checkpoint.resume",
                                   "none",
                                   "--model.layers",
                                   "1",
                                   "--model.heads",
                                   "2",
                                   "--model.width",
                                   "16",
                                   "--model.context",
                                   "4",
                                   "--batch.global",
                                   "2",
                                   "--launch.threads",
                                   "1"};
    words.insert(words.end(), more.begin(), more.end());
    return call(words);
  };
  const std::tuple<const char*, std::string, const char*> cases[] = {
      {"wide.bin", wide_ids, "looks like 32-bit ids"},
      {"weights.bin", std::string("\x20\0\0\0\0\0\0\0", 8) + "{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}    ",
       "is a safetensors file"},
      {"noending", "a text that was not prepared, of some words\n", "is text, not a token file"},
  };
  for (const auto& [name, bytes, said] : cases) {
    const std::string path = folder_ / name;
    write_text(path, bytes);
    for (const Outcome& outcome : {call({"data", "verify", path}), call({"data", "inspect", path}), train(path, "", {}),
                                   train(good, path, {})}) {
      EXPECT_EQ(outcome.code, 1) << name << outcome.output;
      EXPECT_THAT(outcome.output, HasSubstr(said)) << name;
    }
  }
  EXPECT_THAT(call({"data", "merge", "--input", folder_ / "weights.bin", "--output", folder_ / "j"}).output,
              HasSubstr("is a safetensors file"));
  const Outcome trusted = train(folder_ / "wide.bin", "", {"--data.trust", "true"});
  EXPECT_EQ(trusted.code, 0) << trusted.output;
  write_text(folder_ / "shard.bin", shard);
  const Outcome read = train(folder_ / "shard.bin", folder_ / "shard.bin", {});
  EXPECT_EQ(read.code, 0) << read.output;
  EXPECT_THAT(read.output, HasSubstr("shard.bin (3000 tokens)"));
  EXPECT_THAT(call({"data", "inspect", folder_ / "shard.bin"}).output, HasSubstr("format      llm.c shard for GPT-2"));
  EXPECT_THAT(call({"data", "verify", folder_ / "shard.bin"}).output, HasSubstr("good: 3000 ids"));
}

TEST_F(DataRuns, VerifyTakesNoText) {
  const Outcome text = call({"data", "verify", folder_ / "a.jsonl"});
  EXPECT_EQ(text.code, 1);
  EXPECT_THAT(text.output, HasSubstr("a.jsonl: bad: " + (folder_ / "a.jsonl") + " is text (JSON), not a token file"));
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
  EXPECT_THAT(one.output, HasSubstr("merging needs at least two"));
  EXPECT_THAT(call({"data", "merge", "--input", folder_ / "a_text_document", folder_ / "data/train.bin", "--output",
                    folder_ / "x"})
                  .output,
              HasSubstr("train.bin is not an indexed dataset: its .idx file does not exist"));
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
              HasSubstr("train.bin is not an indexed dataset: its .idx file does not exist"));
  EXPECT_THAT(call({"data", "index", "--prefix", folder_ / "a_text_document", "--name", "test", "--samples", "5",
                    "--seq", "4", "--split", "969,30"})
                  .output,
              HasSubstr("the part \"test\" no documents; give it a larger share"));
  EXPECT_THAT(call({"data", "index", "--prefix", folder_ / "a_text_document", "--name", "dev", "--samples", "5",
                    "--seq", "4", "--split", "9,1"})
                  .output,
              HasSubstr("--name is dev; with --split, expected train, valid or test"));
}

}  // namespace
}  // namespace trireme
