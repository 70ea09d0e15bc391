// Files made to use up all memory or time, or that are not regular files: each ends in seconds, in bounded memory, with
// one error that names the file and the limit.

#include <malloc.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/faults/fault_fixture.h"
#include "tests/support/archives.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string letters(size_t count) { return std::string(count, 'a'); }

class HostileFiles : public FaultFixture {
 protected:
  /// The program's output for these arguments, which it must refuse with that code, in little memory and quickly.
  static std::string refusal(int code, const std::vector<std::string>& arguments) {
    Program program(trireme_command(arguments));
    const Outcome outcome = program.finish();
    EXPECT_EQ(outcome.code, code) << outcome.output;
    EXPECT_LT(outcome.processor_seconds, 60) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "error: "), 1) << outcome.output;
    EXPECT_LT(outcome.output.size(), 20'000u);
    if (kMemoryCounts) {
      EXPECT_LT(outcome.peak_rss, size_t{1} << 30) << outcome.output;
    }
    return outcome.output;
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  /// A byte-level tokenizer of 300 tokens; `rest`: more members of its tokenizer.json.
  std::string make_tokenizer(const std::string& rest = "") const {
    if (!fs::exists(path("tokenizer/tokenizer.json"))) {
      std::string text;
      for (int i = 0; i < 5000; ++i) text += std::to_string(i) + "\n";
      const Outcome outcome = run(trireme_command({"tokenizer", "train", "--input", write("numbers.txt", text),
                                                   "--vocab-size", "300", "--output", path("tokenizer")}));
      EXPECT_EQ(outcome.code, 0) << outcome.output;
    }
    std::string json = read_text(path("tokenizer/tokenizer.json"));
    if (rest.empty()) return path("tokenizer/tokenizer.json");
    const std::string none = "\"normalizer\": null,";
    const size_t at = json.find(none);
    EXPECT_NE(at, std::string::npos) << json.substr(0, 300);
    return write("other.json", json.replace(at, none.size(), rest));
  }
  std::vector<std::string> prepare(const std::string& input, const std::string& tokenizer) const {
    return {"prepare", "--input", input, "--tokenizer", tokenizer, "--output", path("out")};
  }
};

TEST_F(HostileFiles, ALineOfHundredsOfMegabytesIsNamedWithTheOptionThatTakesIt) {
  const auto line = [] { return "{\"text\":\"" + letters(400'000'000) + "\"}\n"; };
  // A child begins with the memory of the test, which must have given the lines back by then.
  const std::string gz = write("x.jsonl.gz", gzip(line())), zst = write("x.jsonl.zst", zstd(line())),
                    text = write("x.txt.gz", gzip(letters(400'000'000)));
  malloc_trim(0);
  const std::string tokenizer = make_tokenizer();
  const std::string expected =
      ", line 1: the line is longer than 64 MiB, the limit of one document; raise it "
      "with --max-document MIB";
  for (const std::string& input : {gz, zst}) {
    EXPECT_THAT(refusal(1, prepare(input, tokenizer)), HasSubstr(input + expected));
    EXPECT_FALSE(fs::exists(path("out/train.bin")));
  }
  EXPECT_THAT(
      refusal(1, {"tokenizer", "train", "--input", path("x.jsonl.gz"), "--vocab-size", "300", "--output", path("t")}),
      HasSubstr("x.jsonl.gz" + expected));
  EXPECT_THAT(refusal(1, prepare(text, tokenizer)), HasSubstr("is longer than 64 MiB"));
}

TEST_F(HostileFiles, ATokenizerWhoseRulesMultiplyOrNeverEndIsNamed) {
  const std::string text = write("a.txt", std::string(200'000, 'a')), many(100, 'a');
  const std::string replace = R"({"type":"Replace","pattern":{"String":"a"},"content":")" + many + R"("})";
  std::string chain = replace;
  for (int i = 0; i < 4; ++i) chain += "," + replace;
  EXPECT_THAT(
      refusal(1, prepare(text, make_tokenizer(R"("normalizer":{"type":"Sequence","normalizers":[)" + chain + "]},"))),
      HasSubstr("other.json: its normalizer or decoder makes more than "));
  for (const char* pattern : {"(a{1000}){1000}", "(a|aa)+[cd]", "a*b*a*[cd]"}) {
    EXPECT_THAT(refusal(1, prepare(text, make_tokenizer(R"("normalizer":{"type":"Replace","pattern":{"Regex":")" +
                                                        std::string(pattern) + R"("},"content":""},)"))),
                HasSubstr("pattern"))
        << pattern;
  }
}

TEST_F(HostileFiles, PipesAndDevicesInPlaceOfFilesAreNamed) {
  ASSERT_EQ(run(trireme_command(train("run"))).code, 0);
  ASSERT_EQ(run(trireme_command({"export", "--model", path("run"), "--output", path("hf")})).code, 0);
  const std::string step = path("run/step-00000020");
  const auto replaced = [&](const std::string& file, const std::vector<std::string>& arguments, int code = 1) {
    fs::rename(file, file + ".kept");
    EXPECT_EQ(mkfifo(file.c_str(), 0600), 0);
    EXPECT_THAT(refusal(code, arguments), HasSubstr(file.substr(file.rfind('/') + 1) + " is a pipe")) << file;
    fs::remove(file);
    fs::rename(file + ".kept", file);
  };
  replaced(path("train.bin"), train("other"));
  replaced(path("config.yaml"), train("other"), 2);
  replaced(path("run/step-00000020/manifest.json"), {"sample", "--model", step, "--prompt", "x"});
  replaced(path("hf/model.safetensors"), {"export", "--model", path("hf"), "--output", path("o")});
  replaced(path("hf/config.json"), {"export", "--model", path("hf"), "--output", path("o")});
  const std::string tokenizer = make_tokenizer();
  replaced(tokenizer, prepare(write("a.txt", "some text"), tokenizer));
  replaced(path("a.txt"), prepare(path("a.txt"), tokenizer));
  fs::create_symlink("/dev/zero", path("zero.txt"));
  EXPECT_THAT(refusal(1, prepare(path("zero.txt"), tokenizer)), HasSubstr("is a device, expected a file"));
  EXPECT_THAT(refusal(1, prepare(path("a.txt"), "/dev/zero")), HasSubstr("/dev/zero is a device"));
}

TEST_F(HostileFiles, SizesThatNothingCouldHoldAreNamedBeforeAnythingIsMade) {
  ASSERT_EQ(run(trireme_command(train("run"))).code, 0);
  write("train.bin.json", R"({"format_version": 1, "dtype": "uint16", "tokens": 20000, "documents": 1,
    "vocabulary_size": 4611686018427387904, "tokenizer_hash": "", "split": "", "block_bytes": 16777216,
    "block_hashes": ["0000000000000000"]})");
  EXPECT_THAT(refusal(1, train("other")),
              HasSubstr("train.bin.json: \"vocabulary_size\" is 4611686018427387904, expected 0 to 2147483648"));
  fs::remove(path("train.bin.json"));
  for (const char* command : {"sample", "parity"}) {
    std::vector<std::string> words = {command, "--model", path("run"), "--threads", "100000"};
    if (command == std::string("parity")) words.insert(words.end(), {"--case", path("run")});
    EXPECT_THAT(refusal(2, words), HasSubstr("--threads"));
    words[4] = "1000000000";
    EXPECT_THAT(refusal(2, words), HasSubstr("--threads"));
  }
  EXPECT_THAT(refusal(2, train("other", {"--launch.threads", "4096"})), HasSubstr("launch.threads"));
  EXPECT_THAT(refusal(2, train("other", {"--launch.threads", "1000"})),
              HasSubstr("launch.threads (--threads) is 1000"));
  EXPECT_THAT(refusal(2, train("other", {"--batch.global", "1073741824"})),
              HasSubstr("micro-batches of 8 on each of 1 rank per step, but at most 16384 are supported"));
  ASSERT_EQ(run(trireme_command({"export", "--model", path("run"), "--output", path("hf")})).code, 0);
  std::string config = read_text(path("hf/config.json"));
  const std::string layers = "\"n_layer\": 2";
  const size_t at = config.find(layers);
  ASSERT_NE(at, std::string::npos) << config;
  write("hf/config.json", config.replace(at, layers.size(), "\"n_layer\": 10000000"));
  EXPECT_THAT(refusal(1, {"export", "--model", path("hf"), "--output", path("o")}),
              HasSubstr("config.json: model: layers is 10000000, expected 1 to 1000"));
}

TEST_F(HostileFiles, BinaryOutputDoesNotHideTheError) {
  write("train.bin.json", "\xFF\xFEjunk");
  EXPECT_THAT(refusal(1, train("run")), HasSubstr("train.bin.json: not valid JSON at line 1, column 1"));
  EXPECT_EQ(read_status(path("run")).state, RunState::failed);
  EXPECT_THAT(read_status(path("run")).message, HasSubstr("train.bin.json: not valid JSON"));
  write("train.bin.json", "{\"\x1b[31m" + std::string(2'000'000, 'k') + "\":1}");
  EXPECT_THAT(refusal(1, train("run")), HasSubstr("train.bin.json"));
  EXPECT_LT(read_status(path("run")).message.size(), 3000u);
}

}  // namespace
}  // namespace trireme
