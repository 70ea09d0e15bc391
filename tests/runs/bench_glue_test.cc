// `trireme bench glue`: alone, against a peer, on several ranks.

#include <algorithm>
#include <map>

#include "tests/runs/glue_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class BenchGlue : public GlueFixture {
 protected:
  std::vector<std::string> bench(const std::vector<std::string>& flags) const {
    std::vector<std::string> words{
        "bench",   "glue", "--model",          path("model"), "--data-dir", path("data"),       "--batch",   "8",
        "--steps", "3",    "--max-seq-length", "32",          "--json",     path("bench.json"), "--threads", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    return words;
  }
};

TEST_F(BenchGlue, MeasuresStepsBesideAPeer) {
  write_text(path("peer.sh"), "echo ready; while read go; do echo 100 8 1000 0.5; done");
  const Outcome outcome =
      run(trireme_command(bench({"--peer", "pytorch", "--python", "/bin/sh", "--peer-script", path("peer.sh")})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = json("bench.json");
  EXPECT_NEAR(result["samples_per_s"].get<double>() * result["ms_per_step"].get<double>() / 1e3, 8, 1e-9);
  EXPECT_GT(result["tokens_per_sample"].get<double>(), 5);
  for (const char* padding : {"dynamic", "full"}) {
    EXPECT_DOUBLE_EQ(result["pytorch"][padding]["samples_per_s"].get<double>(), 0.08);
    EXPECT_GT(result["pytorch"][padding]["ratio"].get<double>(), 1);
  }
  EXPECT_GT(result["model_flops_per_s"].get<double>(), 0);
  EXPECT_GT(result["share"].get<double>(), 0);
  EXPECT_THAT(outcome.output, HasSubstr("PyTorch, full padding"));
}

TEST_F(BenchGlue, HoldsAStepAgainstItsGemms) {
  auto words = bench({});
  *(std::ranges::find(words, "--steps") + 1) = "1";  // of several, the share is its own median
  const Outcome outcome = run(trireme_command(words));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const Json result = json("bench.json");
  EXPECT_DOUBLE_EQ(result["share"].get<double>() * result["ceiling_flops_per_s"].get<double>(),
                   result["model_flops_per_s"].get<double>());
  EXPECT_GE(result["ceiling_flops_per_s"], result["plain_ceiling_flops_per_s"]);
}

/// The same rows from the same weights: every loss of 100 steps. They fall, so the weights that bf16 computes with
/// move.
TEST_F(BenchGlue, LossesInBf16AreThoseOfF32) {
  std::map<std::string, std::vector<double>> losses;
  for (const std::string dtype : {"f32", "bf16"}) {
    auto words = bench({"--dtype", dtype});
    *(std::ranges::find(words, "--steps") + 1) = "100";
    const Outcome outcome = run(trireme_command(words));
    ASSERT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(" " + dtype + ", batch 8"));
    EXPECT_EQ(json("bench.json")["dtype"], dtype);
    losses[dtype] = json("bench.json")["losses"].get<std::vector<double>>();
    ASSERT_EQ(losses[dtype].size(), 100u);
  }
  EXPECT_NE(losses["f32"], losses["bf16"]);
  for (size_t step = 0; step < 100; ++step) EXPECT_NEAR(losses["f32"][step], losses["bf16"][step], 1e-2) << step;
}

TEST_F(BenchGlue, PrintsTheSpeedUpOfRanks) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Outcome outcome = run(mpirun_command(3, bench({})));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("ranks   rows/s   s per step   speed-up   efficiency   waiting"));
  const Json ranks = json("bench.json")["ranks"];
  ASSERT_EQ(ranks.size(), 3u) << "1, 2 and all 3";
  EXPECT_EQ(ranks["1"]["speed_up"], 1.0);
  for (const int n : {1, 2, 3}) {
    const Json& of = ranks[std::to_string(n)];
    EXPECT_NEAR(of["samples_per_s"].get<double>() * of["ms_per_step"].get<double>() / 1e3, 8 * n, 1e-9);
    const double rate = of["samples_per_s"], one = ranks["1"]["samples_per_s"];
    EXPECT_DOUBLE_EQ(of["speed_up"].get<double>(), rate / one) << "of the rows beside it";
  }
}

TEST_F(BenchGlue, SaysWhatItCannotMeasure) {
  const auto fails = [&](const std::string& flag, const std::string& value, const std::string& text) {
    auto words = bench({});
    *(std::ranges::find(words, flag) + 1) = value;
    const Outcome outcome = run(trireme_command(words));
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.output, HasSubstr(text));
  };
  fails("--batch", "300", "--batch 300 on 1 rank is more than the 203 rows of");
  fails("--max-seq-length", "33", "--max-seq-length 33 is more than the 32 positions of");
}

}  // namespace
}  // namespace trireme
