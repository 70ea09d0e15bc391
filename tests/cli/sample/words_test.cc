#include "cli/sample/words.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;
using testing::StartsWith;

using Words = std::vector<std::string>;

TEST(SampleWords, OfSamplePyHaveItsDefaults) {
  const Words defaults{"--max-new-tokens=500", "--num-samples=10", "--seed=1337",     "--start=\n",
                       "--temperature=0.8",    "--top-k=200",      "--no-stop-at-end"};
  Words expected{"--model=o"};
  expected.insert(expected.end(), defaults.begin(), defaults.end());
  EXPECT_EQ(take_sampling_dialects({"--out_dir=o"}), expected);
  EXPECT_EQ(take_sampling_dialects({"--out-dir", "o", "--init_from=resume"}), expected);
  expected[0] = "--model=out";
  EXPECT_EQ(take_sampling_dialects({"--init_from=resume"}), expected);
  EXPECT_EQ(take_sampling_dialects({"--dialect", "nanogpt"}), expected);
  expected[0] = "--model=models/gpt2-xl";
  EXPECT_EQ(take_sampling_dialects({"--init_from=gpt2-xl"}), expected);
  const Words own = take_sampling_dialects({"--out_dir=o", "--start=the cat", "--num_samples=2", "--device=cpu"});
  EXPECT_THAT(own, Not(Contains("--start=\n")));
  EXPECT_EQ(own.back(), "--device=cpu") << "what was given comes last, and wins";
}

TEST(SampleWords, ReadAConfigurationFile) {
  const TemporaryFolder folder;
  const std::string file = folder / "s.py";
  write_text(file,
             "out_dir = 'o'\nnum_samples = 2 + 1\ntemperature = 1\nbatch_size = 12\nstart = 'x'\ncompile = True\n");
  const Words words = take_sampling_dialects({file, "--top_k=5"});
  for (const char* word : {"--model=o", "--num-samples=3", "--temperature=1", "--start=x", "--top-k=200",
                           "--max-new-tokens=500", "--compile=true"}) {
    EXPECT_THAT(words, Contains(word));
  }
  EXPECT_EQ(words.back(), "--top_k=5");
  EXPECT_THAT(words, Not(Contains(StartsWith("--batch"))));
  EXPECT_THAT(take_sampling_dialects({file, "--out_dir=p"}), Contains("--model=p"));
  write_text(file, "num_samples = 'many'\n");
  EXPECT_ERROR(take_sampling_dialects({file}), ErrorKind::config, "s.py:1: num_samples is \"many\"");
  EXPECT_ERROR(take_sampling_dialects({file, "--model=x"}), ErrorKind::usage, "both name a model");
  EXPECT_ERROR(take_sampling_dialects({"--init_from=bert"}), ErrorKind::config, "--init_from is \"bert\"");
}

TEST(SampleWords, OfIntelsSamplePyFindTheLinkOfModelPath) {
  const TemporaryFolder folder;
  const Words defaults{"--max-new-tokens=100", "--temperature=0.6", "--top-k=200", "--seed=1337",
                       "--prompt=It is interesting "};
  Words expected{"--model=" + (folder / "ckpt.pt")};
  expected.insert(expected.end(), defaults.begin(), defaults.end());
  EXPECT_EQ(take_sampling_dialects({"--ckpt_path", folder / "ckpt.pt"}), expected) << "neither is there";
  std::filesystem::create_directory(folder / "ckpt");
  expected[0] = "--model=" + (folder / "ckpt");
  EXPECT_EQ(take_sampling_dialects({"--ckpt_path=" + (folder / "ckpt.pt")}), expected);
  write_text(folder / "ckpt.pt", "x");
  expected[0] = "--model=" + (folder / "ckpt.pt");
  EXPECT_EQ(take_sampling_dialects({"--ckpt_path=" + (folder / "ckpt.pt")}), expected) << "a torch file comes first";
  EXPECT_THAT(take_sampling_dialects({"--ckpt_path=x.pt", "--prompt=y"}), Not(Contains(StartsWith("--prompt=It"))));
}

TEST(SampleWords, OfThisProgramStayAsTheyAre) {
  const Words words{"--model", "x", "--num-samples=2", "--start=a", "--dtype=bf16"};
  EXPECT_EQ(take_sampling_dialects(words), words);
  EXPECT_EQ(take_sampling_dialects({"--help"}), Words{"--help"});
  EXPECT_ERROR(take_sampling_dialects({"--dialect=gpt-neox"}), ErrorKind::usage, "--dialect gpt-neox");
}

}  // namespace
}  // namespace trireme
