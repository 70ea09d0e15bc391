// Token files of 32-bit ids from prepare to sampling: a vocabulary that 16 bits cannot express.

#include <gmock/gmock.h>

#include "checkpoint/checkpoint_folder.h"
#include "data/npy_file.h"
#include "tests/runs/training_fixture.h"
#include "text/files/tokenizer_writer.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class WideIds : public TrainingFixture {
 protected:
  /// Letters a to z are ids 0, 2700, 5400, ..., 67500.
  WideIds() {
    BpeDescription tokenizer;
    std::string text;
    for (char letter = 'a'; letter <= 'z'; ++letter)
      tokenizer.vocabulary.emplace_back(std::string(1, letter), static_cast<TokenId>(2700 * (letter - 'a')));
    for (int i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * (i % 5) % 26);
    write_text(path("tokenizer.json"), write_tokenizer_json(tokenizer));
    write_text(path("text.txt"), text);
    const Outcome made = run(trireme_command(
        {"prepare", "--input", path("text.txt"), "--tokenizer", path("tokenizer.json"), "--output", path("data")}));
    EXPECT_EQ(made.code, 0) << made.output;
  }
  Outcome start(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> flags{"--data.dir",     path("data"), "--model.vocabulary", "0", "--model.width", "16",
                                   "--batch.global", "4",          "--run.steps",        "6"};
    flags.insert(flags.end(), more.begin(), more.end());
    return run(trireme_command(train(name, flags)));
  }
};

TEST_F(WideIds, TrainResumeShowAndSample) {
  const std::string file = path("data/train.bin");
  const Outcome shown = run(trireme_command({"data", "inspect", file}));
  EXPECT_THAT(shown.output, HasSubstr("format      token file, 32-bit ids"));
  EXPECT_THAT(shown.output, HasSubstr("\"abejq")) << "decoded";
  EXPECT_THAT(run(trireme_command({"data", "verify", file})).output, HasSubstr("good: 2700 ids in 1 blocks"));

  const Outcome whole = start("whole", {});
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(start("parts", {"--run.steps", "3", "--optim.decay-steps", "6"}).code, 0);
  const Outcome resumed = start("parts", {});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_EQ(progress("parts").step, 6u);
  EXPECT_EQ(weights("parts"), weights("whole"));
  EXPECT_EQ(open_checkpoint(path("whole")).facts.spec.vocabulary, 67501);
  EXPECT_LT(losses("whole").at(6), losses("whole").at(1));

  const Outcome sampled =
      run(trireme_command({"sample", "--model", path("whole"), "--prompt", "aj", "--max-new-tokens", "4"}));
  EXPECT_EQ(sampled.code, 0) << sampled.output;
}

TEST_F(WideIds, AreMeasured) {
  std::vector<uint32_t> ids(4000);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint32_t>(i * i % 50000);
  write_npy(path("ids.npy"), ids);
  const auto measure = [&] {
    return run(trireme_command({"bench", "step", "--preset", "opt-8m", "--data", path("ids.npy"), "--steps", "1",
                                "--warmup", "0", "--batch", "1", "--seq", "16", "--threads", "1"}));
  };
  const Outcome step = measure();
  EXPECT_EQ(step.code, 0) << step.output;
  ids[7] = 151000;
  write_npy(path("ids.npy"), ids);
  EXPECT_THAT(measure().output, HasSubstr("ids.npy: token 7 is id 151000, but the vocabulary has 50272 ids"));
}

TEST_F(WideIds, FilesThatCannotHoldThemAreRefused) {
  const Outcome narrow = start("narrow", {"--data.dir", path(""), "--model.vocabulary", "67501"});
  EXPECT_EQ(narrow.code, 1) << narrow.output;
  EXPECT_THAT(narrow.output,
              HasSubstr("train.bin holds 16-bit ids, up to 65535, but the model's vocabulary has 67501"));
  const Outcome few = start("few", {"--model.vocabulary", "67500"});
  EXPECT_NE(few.code, 0) << few.output;
  EXPECT_THAT(few.output, HasSubstr("67501"));
  std::filesystem::remove(path("data/train.bin.json"));
  EXPECT_THAT(start("bare", {"--model.vocabulary", "67501"}).output,
              HasSubstr("data/train.bin holds 16-bit ids, up to 65535, but the model's vocabulary has 67501"))
      << "no sidecar";
}

}  // namespace
}  // namespace trireme
