// Configurations, texts and tokenizers that are wrong: named by the program before anything is made.

#include <algorithm>
#include <fstream>

#include "checkpoint/run_folder/run_folder.h"
#include "data/sidecar.h"
#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class WrongInput : public FaultFixture {
 protected:
  /// The program's output for these arguments, which it must refuse with that code in little memory.
  static std::string refusal(int code, const std::vector<std::string>& arguments) {
    const Outcome outcome = run(trireme_command(arguments));
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
    if (kMemoryCounts) {
      EXPECT_LT(outcome.peak_rss, size_t{300} << 20);
    }
    return outcome.output;
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  /// A byte-level tokenizer trained on numbers.
  std::string make_tokenizer() const {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += std::to_string(i) + "\n";
    const Outcome outcome = run(trireme_command({"tokenizer", "train", "--input", write("numbers.txt", text),
                                                 "--vocab-size", "300", "--output", path("tokenizer")}));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return path("tokenizer") + "/tokenizer.json";
  }
};

TEST_F(WrongInput, ConfigurationsAreRefusedWithFileAndLine) {
  struct Case {
    const char *text, *message;
  };
  const Case cases[] = {
      {"model: {layers: 2}\nlunch: {threads: 1}\n",
       "a.yaml:2: unknown option \"lunch.threads\"; did you mean \"launch."},
      {"model:\n  layers: two\n", "a.yaml:2: model.layers is \"two\", expected a whole number from 1 to 1000"},
      {"model:\n  layers: -3\n", "a.yaml:2: model.layers is -3, expected a whole number from 1 to 1000"},
      {"run:\n  steps: 3\n  steps: 4\n", "a.yaml:3: \"run.steps\" appears twice in this file, first in line 2"},
      {"optim:\n  learning_rate: .nan\n", "a.yaml:2: optim.learning_rate is .nan, which is not a finite number"},
      {"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "a.yaml:2: aliases (*name) are not supported"},
      {"a: [1, 2\n", "a.yaml"},
      {"model: {layers: \xff}\n", "UTF-8"},
  };
  for (const Case& c : cases) {
    EXPECT_THAT(refusal(2, {"train", write("a.yaml", c.text), "--run.dir", path("run")}), HasSubstr(c.message));
  }
  fs::resize_file(path("a.yaml"), uint64_t{1} << 30);
  EXPECT_THAT(refusal(2, {"train", path("a.yaml"), "--run.dir", path("run")}),
              HasSubstr("a.yaml has 1073741824 bytes, but at most 1048576 are supported"));
  EXPECT_FALSE(fs::exists(path("run"))) << "nothing is touched";
}

TEST_F(WrongInput, OptionsThatDoNotFitEachOtherAreRefusedWithThoseThatWould) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"--model.heads", "3"}, "does not divide model.width"},
      {{"--model.heads", "3"}, "heads that do: 1, 2, 4, 8, 16, 32"},
      {{"--mesh.tensor", "3"},
       "mesh rest x 3 x 1 needs a multiple of 3 processes but no launcher started this process"},
      {{"--mesh.pipeline", "5"},
       "mesh rest x 1 x 5 needs a multiple of 5 processes but no launcher started this process"},
      {{"--mesh.data", "2"},
       "mesh 2 x 1 x 1 needs 2 processes but no launcher started this process, so it is the only one"},
      {{"--batch.micro", "13"}, "batch.micro"},
      {{"--batch.micro", "5"}, "batch.micro"},
      {{"--batch.sequence", "17"}, "batch.sequence"},
  };
  for (const auto& [flags, message] : cases) {
    EXPECT_THAT(refusal(2, train("run", flags)), HasSubstr(message)) << flags[0] << " " << flags[1];
  }
  EXPECT_TRUE(!fs::exists(path("run")) || list_steps(path("run")).empty());
}

TEST_F(WrongInput, LinesThatAreNotDocumentsAreCountedOrRefused) {
  const std::string tokenizer = make_tokenizer();
  const std::string lines = write("lines.jsonl",
                                  "{\"text\": \"1\"}\n"
                                  "{\"txt\": \"2\"}\n"
                                  "{\"text\": 3}\n"
                                  "{\"text\": \"4\"\n"
                                  "{\"text\": \"5\", \"text\": \"6\"}\n"
                                  "{\"text\": \"7\", \"n\": 1e999999}\n"
                                  "{\"text\": \"\\ud800 8\"}\n"
                                  "{\"text\": \"9\"}\n"
                                  "{\"text\": \"cut");
  const std::vector<std::string> words = {"prepare", "--input", lines, "--tokenizer", tokenizer, "--output"};
  auto lenient = words, strict = words;
  lenient.push_back(path("lenient"));
  strict.insert(strict.end(), {path("strict"), "--strict"});
  const Outcome outcome = run(trireme_command(lenient));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  for (const int line : {2, 3, 4, 5, 6, 7, 9}) {
    EXPECT_THAT(outcome.output, HasSubstr("lines.jsonl, line " + std::to_string(line) + ": ")) << outcome.output;
  }
  EXPECT_THAT(outcome.output, HasSubstr(": 2 documents, "));
  EXPECT_THAT(refusal(1, strict), HasSubstr("lines.jsonl, line 2: \"text\" is missing; without --strict"));
  EXPECT_FALSE(fs::exists(path("strict") + "/train.bin"));
}

TEST_F(WrongInput, TextOfAnyBytesComesBackAndALongLineTakesItsTime) {
  const std::string tokenizer = make_tokenizer();
  std::string text =
      "\xEF\xBB\xBF"
      "bom\r\n\xFF\xFE\xC3(\xED\xA0\x80 lone\t";
  text += std::string(3, '\0') + "nul \xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 \xF4\x90\x80\x80 Z\xCC\xA7\xCC\xA7 ";
  text += std::string(2 << 20, 'a') + std::string(2 << 20, ' ') + "end";
  const Outcome outcome = run(trireme_command({"prepare", "--input", write("text.txt", text), "--tokenizer", tokenizer,
                                               "--output", path("data"), "--train-fraction", "0.5"}));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  // Each id of a byte-level vocabulary means bytes: both files together are the text.
  std::string ids;
  for (const char* file : {"/train.bin", "/val.bin"}) {
    const std::string bytes = read_text(path("data") + file, size_t{1} << 30);
    ids += "[";
    for (size_t i = 0; i < bytes.size(); i += 2) {
      const int id = static_cast<unsigned char>(bytes[i]) | static_cast<unsigned char>(bytes[i + 1]) << 8;
      ids += (i > 0 ? "," : "") + std::to_string(id);
    }
    ids += "]\n";
  }
  const Outcome decoded = run({"sh", "-c",
                               "'" + trireme_path() + "' tokenizer decode --skip-special-tokens --tokenizer '" +
                                   tokenizer + "' '" + write("ids.jsonl", ids) + "' > '" + path("back.txt") + "'"});
  EXPECT_EQ(decoded.code, 0) << decoded.output;
  std::string back = read_text(path("back.txt"), size_t{1} << 30);
  back.erase(std::remove(back.begin(), back.end(), '\n'), back.end());
  text.erase(std::remove(text.begin(), text.end(), '\n'), text.end());
  EXPECT_TRUE(back == text) << back.size() << " bytes came back of " << text.size();
  EXPECT_THAT(
      refusal(1, {"prepare", "--input", write("empty.txt", ""), "--tokenizer", tokenizer, "--output", path("none")}),
      HasSubstr("the input is empty: "));
}

TEST_F(WrongInput, TokenizersThatContradictThemselvesAreRefusedWithTheName) {
  const std::string good = read_text(make_tokenizer());
  const size_t merges = good.find("\"merges\"");
  ASSERT_NE(merges, std::string::npos);
  const size_t first = good.find('[', merges) + 1;
  const size_t end = good.find(']', merges);
  const auto with = [&](const std::string& more) { return good.substr(0, end) + "," + more + good.substr(end); };
  std::string merge = good.substr(first, good.find(',', first) - first);
  const std::string no_unknown = "\"unk_token\": null";
  std::string unknown = good;
  ASSERT_NE(good.find(no_unknown), std::string::npos);
  unknown.replace(good.find(no_unknown), no_unknown.size(), "\"unk_token\": \"<none>\"");
  const std::pair<std::string, const char*> cases[] = {
      {with(merge), "appears twice"},
      {with("\"zz yy\""), "\"zz\" is missing from the vocabulary"},
      {unknown, "the unknown token \"<none>\" is missing from the vocabulary"},
      {good.substr(0, good.size() / 2), "tokenizer.json"},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_THAT(refusal(1, {"prepare", "--input", path("numbers.txt"), "--tokenizer", write("tokenizer.json", text),
                            "--output", path("none")}),
                AllOf(HasSubstr("tokenizer.json"), HasSubstr(message)));
  }
  EXPECT_FALSE(fs::exists(path("none") + "/train.bin"));
}

TEST_F(WrongInput, IndexedDatasetsThatAreCutOrNoneAreRefused) {
  const std::string tokenizer = make_tokenizer();
  ASSERT_EQ(run(trireme_command({"prepare", "--format", "megatron", "--append-eod", "--input", path("numbers.txt"),
                                 "--tokenizer", tokenizer, "--output", path("set")}))
                .code,
            0);
  const std::string stem = path("set_text_document");
  const std::vector<std::string> flags = {"--data.train", stem, "--data.validation", "", "--model.vocabulary", "300"};
  const std::string index = read_text(stem + ".idx");
  const std::pair<std::string, const char*> cases[] = {
      {"NOTANINDEX" + index.substr(10), ".idx"},
      {index.substr(0, index.size() - 3), ".idx"},
      {"", ".idx"},
  };
  for (const auto& [bytes, message] : cases) {
    write("set_text_document.idx", bytes);
    EXPECT_THAT(refusal(1, train("run", flags)), HasSubstr(message));
  }
  write("set_text_document.idx", index);
  fs::resize_file(stem + ".bin", fs::file_size(stem + ".bin") - 2);
  EXPECT_THAT(refusal(1, train("run", flags)), HasSubstr("set_text_document.bin"));
}

TEST_F(WrongInput, MoreThanTwoToThe32TokensAreTrainedOn) {
  const uint64_t tokens = (uint64_t{1} << 32) + 12345;
  TokenSidecar sidecar;
  sidecar.tokens = tokens;
  sidecar.documents = 1;
  sidecar.vocabulary = 31;
  BlockHasher zeros, rest;
  const std::vector<std::byte> block(kSidecarBlockBytes);
  zeros.append(block);
  const uint64_t hash = zeros.finish().front();
  sidecar.block_hashes.assign(tokens * 2 / kSidecarBlockBytes, hash);
  rest.append(std::span(block).first(tokens * 2 % kSidecarBlockBytes));
  sidecar.block_hashes.push_back(rest.finish().front());
  write("large.bin", "");
  fs::resize_file(path("large.bin"), tokens * 2);  // sparse
  write_sidecar(path("large.bin"), sidecar);
  const Outcome outcome = run(trireme_command(train("run", {"--data.train", "large.bin", "--run.steps", "3"})));
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, ContainsRegex("4294979641|4\\.29 ?G|4,294,979,641|4295"));
}

}  // namespace
}  // namespace trireme
