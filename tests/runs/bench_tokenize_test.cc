// `trireme bench tokenize`, with shell scripts in place of the other libraries.

#include <gmock/gmock.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/runs/program.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class BenchTokenize : public testing::Test {
 protected:
  BenchTokenize() {
    std::string text;
    while (text.size() < 500'000) text += fmt::format("the cat number {} sat on the mat\n", text.size());
    write_text(folder_ / "text.txt", text);
    const Outcome trained = bench(
        {"tokenizer", "train", "--input", folder_ / "text.txt", "--vocab-size", "300", "--output", folder_.path()});
    EXPECT_EQ(trained.code, 0) << trained.output;
  }
  Outcome bench(std::vector<std::string> words, bool with_peers = false) const {
    if (with_peers) words.insert(words.end(), {"--python", "/bin/sh", "--peer-scripts", folder_.path()});
    return run(trireme_command(std::move(words)));
  }
  void write_peer(const std::string& name, const std::string& script) const { write_text(folder_ / name, script); }
  TemporaryFolder folder_;
};

TEST_F(BenchTokenize, AlternatesWithPeersOnOneThreadAndAll) {
  write_peer("encode_text.py", "echo ready; while read go; do echo 100 32; done");
  const std::string file = folder_ / "result.json";
  const Outcome outcome = bench({"bench", "tokenize", "--tokenizer", folder_.path(), "--input", folder_ / "text.txt",
                                 "--peers", "tiktoken,hf", "--repeats", "2", "--json", file},
                                true);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("OpenWebText (9.04e+09 tokens) at this rate:"));
  const Json result = read_json(file);
  EXPECT_GT(result.at("openwebtext_seconds").get<double>(), 0);
  double ours = 0;
  for (const Json& row : result.at("results")) {
    if (row.at("name") == "trireme") {
      ours = row.at("mb_per_s").get<double>();
      EXPECT_GT(ours, 0.1);
      EXPECT_GT(row.at("tokens").get<int64_t>(), 50'000);
    } else {
      EXPECT_NEAR(row.at("mb_per_s").get<double>(), result.at("bytes").get<double>() / 1e8, 1e-9);
      EXPECT_EQ(row.at("tokens"), 32);
    }
  }
  EXPECT_EQ(result.at("results").size() % 3, 0u);
}

TEST_F(BenchTokenize, DecodesTheTextsIds) {
  const std::string file = folder_ / "result.json";
  const std::vector<std::string> words = {"bench",        "tokenize",  "--tokenizer",
                                          folder_.path(), "--input",   folder_ / "text.txt",
                                          "--decode",     "--repeats", "2"};
  auto with_file = words;
  with_file.insert(with_file.end(), {"--json", file});
  const Outcome outcome = bench(with_file);
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = read_json(file);
  EXPECT_EQ(result.at("bytes"), read_text(folder_ / "text.txt").size()) << "all of it comes out again";
  EXPECT_GT(result.at("results").at(0).at("mb_per_s").get<double>(), 1);
  EXPECT_GT(result.at("results").at(0).at("tokens").get<int64_t>(), 50'000);
  auto with_peers = words;
  with_peers.insert(with_peers.end(), {"--peers", "tiktoken"});
  const Outcome refused = bench(with_peers);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--decode measures only trireme, on one thread; remove --peers and --threads"));
  auto with_train = words;
  with_train.push_back("--train");
  EXPECT_THAT(bench(with_train).output, HasSubstr("--decode and --train were both given; use one"));
}

TEST_F(BenchTokenize, TakesAPatternForAFileOfRanks) {
  const std::string_view base64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string ranks;
  for (size_t byte = 0; byte < 256; ++byte)
    ranks += fmt::format("{}{}== {}\n", base64[byte >> 2], base64[(byte & 3) << 4], byte);
  write_text(folder_ / "letters.tiktoken", ranks);
  std::vector<std::string> words = {"bench",   "tokenize",           "--tokenizer", folder_ / "letters.tiktoken",
                                    "--input", folder_ / "text.txt", "--repeats",   "1"};
  const Outcome refused = bench(words);
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("is unknown; set --pattern to"));
  words.insert(words.end(), {"--pattern", "gpt2"});
  const Outcome outcome = bench(words);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("OpenWebText"));
}

TEST_F(BenchTokenize, ComparesTheVocabularyThatThePeerTrains) {
  // train_bpe.py VOCABULARY_SIZE TEXT THREADS OUTPUT
  write_peer("train_bpe.py", "echo ready; while read go; do cp " + folder_ / "theirs.json" + " $4; echo 100 $1; done");
  const auto train = [&](const Json& vocabulary) {
    write_text(folder_ / "theirs.json", vocabulary.dump());
    return bench({"bench", "tokenize", "--train", "--vocab-size", "300", "--input", folder_ / "text.txt", "--peers",
                  "hf", "--repeats", "1"},
                 true);
  };
  Json vocabulary = read_json(folder_ / "tokenizer.json").at("model").at("vocab");
  const Outcome same = train(vocabulary);
  ASSERT_EQ(same.code, 0) << same.output;
  EXPECT_THAT(same.output, HasSubstr("300 tokens  trireme is"));
  EXPECT_THAT(same.output, HasSubstr("the vocabularies are the same, id for id"));
  vocabulary["zz"] = vocabulary.back();
  EXPECT_THAT(train(vocabulary).output, HasSubstr("the vocabularies are different"));
  EXPECT_THAT(bench({"bench", "tokenize", "--train", "--input", folder_ / "text.txt", "--peers", "tiktoken"}).output,
              HasSubstr("--train supports only one peer: --peers hf"));
}

}  // namespace
}  // namespace trireme
