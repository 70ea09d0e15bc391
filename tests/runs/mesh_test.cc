// Complete programs over tensor, pipeline and data ranks.

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using Flags = std::vector<std::string>;

class MeshRuns : public TrainingFixture {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  }

  static Flags with(Flags flags, const Flags& more) {
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  /// Steps to `steps` over this number of ranks.
  Outcome go_on(const std::string& name, int ranks, const char* steps, const Flags& layout) {
    const Flags flags = with({"--run.steps", steps, "--optim.decay-steps", "24", "--optim.epsilon", "1e-3"}, layout);
    const Outcome outcome = run(mpirun_command(ranks, train(name, flags)));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    return outcome;
  }
};

TEST_F(MeshRuns, ARunResumesOnAnyOtherLayout) {
  const auto run_to = [&](const std::string& name, int ranks, const char* steps, const Flags& layout) {
    go_on(name, ranks, steps, with({"--model.layers", "5"}, layout));
  };
  run_to("one", 1, "24", {});
  run_to("changes", 4, "4", {"--mesh.tensor", "2", "--mesh.pipeline", "2"});
  run_to("changes", 2, "8", {"--optim.shard", "optimizer"});
  run_to("changes", 4, "11",
         {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--batch.micro", "3", "--optim.shard", "optimizer"});
  run_to("changes", 4, "15", {"--mesh.tensor", "2", "--mesh.pipeline", "2", "--mesh.sequence", "true"});
  run_to("changes", 2, "18",
         {"--mesh.pipeline", "2", "--mesh.stages", "1,4", "--batch.micro", "2", "--model.recompute", "true"});
  run_to("changes", 2, "20",
         {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--mesh.stages", "1,2,1,1", "--batch.micro", "3"});
  run_to("changes", 3, "21", {"--optim.shard", "parameters", "--batch.micro", "2"});
  run_to(
      "changes", 4, "22",
      {"--optim.shard", "parameters", "--optim.shard-group", "host", "--comm.reduce", "hosts", "--batch.micro", "3"});
  run_to("changes", 4, "23", {"--mesh.tensor", "2", "--optim.shard", "gradients"});
  run_to("changes", 4, "24", {"--mesh.tensor", "2", "--optim.shard", "optimizer"});
  const auto one = losses("one"), changes = losses("changes");
  ASSERT_EQ(changes.size(), one.size());
  for (const auto& [step, loss] : one) EXPECT_NEAR(changes.at(step), loss, 1e-5 * loss) << "step " << step;
  const std::vector<float> want = weights("one"), got = weights("changes");
  double norm = 0, difference = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    norm += static_cast<double>(want[i]) * want[i];
    difference += static_cast<double>(want[i] - got[i]) * (want[i] - got[i]);
  }
  EXPECT_LE(difference, 1e-10 * norm);
}

// 31 ids fill 64 rows, which 3 ranks cannot share: they have two more, in a new run and in one that began otherwise.
TEST_F(MeshRuns, RanksThatShareTheStateOfARunEvaluateItOnly) {
  go_on("run", 2, "2", {});
  const auto evaluation = [&](const char* shard) {
    const Outcome outcome =
        run(mpirun_command(2, train("run", {"--run.steps", "2", "--evaluation.only", "true", "--optim.shard", shard})));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    const size_t begin = std::min(outcome.output.find("validation loss"), outcome.output.size());
    return outcome.output.substr(begin, outcome.output.find(" (", begin) - begin);
  };
  const std::string whole = evaluation("none");
  ASSERT_THAT(whole, HasSubstr("validation loss"));
  for (const char* shard : {"optimizer", "gradients", "parameters"}) EXPECT_EQ(evaluation(shard), whole) << shard;
}

TEST_F(MeshRuns, RowsOfPaddingFollowTheTensorRanks) {
  const auto run_to = [&](const std::string& name, int ranks, const char* steps, const Flags& layout) {
    go_on(name, ranks, steps, with({"--model.heads", "3", "--model.width", "48"}, layout));
  };
  run_to("one", 1, "6", {});
  run_to("three", 3, "6", {"--mesh.tensor", "3"});
  run_to("changes", 1, "2", {});
  run_to("changes", 3, "4", {"--mesh.tensor", "3"});
  run_to("changes", 1, "6", {});
  run_to("given", 3, "6", {"--mesh.tensor", "3", "--model.vocabulary-multiple", "50"});
  const auto one = losses("one");
  for (const char* name : {"three", "changes", "given"}) {
    const auto others = losses(name);
    ASSERT_EQ(others.size(), one.size());
    for (const auto& [step, loss] : one) EXPECT_NEAR(others.at(step), loss, 1e-5 * loss) << name << " step " << step;
  }
}

TEST_F(MeshRuns, TheReportSaysWhoHoldsWhat) {
  const Outcome outcome =
      go_on("run", 4, "2", {"--mesh.data", "2", "--mesh.pipeline", "2", "--optim.shard", "optimizer"});
  EXPECT_THAT(outcome.output,
              HasSubstr("data 2 x tensor 1 x pipeline 2: stages of embedding + 1 layer | 1 layer + head"));
  EXPECT_THAT(outcome.output, HasSubstr("each of 2 data ranks keeps its part of the optimizer state"));
}

TEST_F(MeshRuns, TheReportSaysWhichChunksAStageHas) {
  const Outcome outcome = go_on(
      "run", 2, "2", {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--model.layers", "5", "--mesh.stages", "1,2,1,1"});
  EXPECT_THAT(outcome.output, HasSubstr("stages of embedding + 1 layer, 1 layer | 2 layers, 1 layer + head"));
}

TEST_F(MeshRuns, TheReportSaysThatRowsAreShared) {
  const Outcome outcome = go_on("run", 2, "2", {"--mesh.tensor", "2", "--mesh.sequence", "true"});
  EXPECT_THAT(outcome.output, HasSubstr("; sequence parallel between layers"));
}

TEST_F(MeshRuns, WhatDoesNotFitIsRefusedBeforeAnythingIsAllocated) {
  const struct {
    int ranks;
    Flags layout;
    const char* message;
  } cases[] = {
      {3, {"--mesh.tensor", "3"}, "tensor 3 does not divide 2 heads; 1, 2 do"},
      {3,
       {"--mesh.pipeline", "3"},
       "mesh.pipeline is 3, but the model has only 2 layers; set --mesh.pipeline 2 or less"},
      {2, {"--mesh.pipeline", "2", "--mesh.stages", "2,1"}, "mesh.stages 2,1 are 2 stages of 3 layers"},
      {2, {"--mesh.pipeline", "2", "--mesh.stages", "1;1"}, "mesh.stages is \"1;1\", expected layers of each stage"},
      {2,
       {"--mesh.pipeline", "2", "--mesh.chunks", "2"},
       "mesh.chunks 2 of 2 pipeline stages are 4 parts, more than the model's 2 layers; 1 fit"},
      {2,
       {"--mesh.pipeline", "2", "--mesh.chunks", "2", "--model.layers", "4", "--batch.micro", "4"},
       "3 micro-batches cannot be interleaved over 2 stages with 2 chunks each: their number must be a multiple of the "
       "stages, such as 2 or 4; or use one chunk"},
      {2, {"--mesh.chunks", "2"}, "mesh.chunks 2 cuts the layers of pipeline stages further, but mesh.pipeline is 1"},
      {2,
       {"--mesh.sequence", "true"},
       "mesh.sequence splits rows among tensor ranks, but mesh.tensor is 1; set --mesh.tensor to at least 2, or "
       "--mesh.sequence false"},
      {3, {"--mesh.tensor", "2"}, "mesh rest x 2 x 1 needs a multiple of 2 processes but the launcher started 3"},
      {2,
       {"--optim.shard", "parameters", "--mesh.pipeline", "2"},
       "optim.shard (flag --optim.shard) sums gradients among the data ranks after every micro-batch, but a pipeline "
       "of 2 stages has many micro-batches in flight; set --optim.shard to optimizer"},
  };
  for (const auto& [ranks, layout, message] : cases) {
    const Outcome outcome = run(mpirun_command(ranks, train("refused", layout)));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(message));
  }
}

TEST_F(MeshRuns, ARankThatIsLostIsNamedWithItsPlace) {
  Program program(
      mpirun_command(4, train("run", {"--run.steps", "100000", "--mesh.tensor", "2", "--mesh.pipeline", "2"})));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step      5/") != std::string::npos; }))
      << program.output();
  kill(rank_of(program, 3), SIGKILL);
  const Outcome outcome = program.finish();
  EXPECT_NE(outcome.code, 0);
  if (mpirun_is_hydra()) return;  // which may end the survivors before they report it
  EXPECT_THAT(outcome.output, HasSubstr("rank 3 (data 0, tensor 1, pipeline 1) on "));
  EXPECT_THAT(read_text(path("run") + "/status.json"), HasSubstr("\"peer-lost\""));
}

TEST_F(MeshRuns, AStopSignalSavesOnEveryLayout) {
  Program program(mpirun_command(4, train("run", {"--run.steps", "100000", "--mesh.tensor", "2", "--mesh.pipeline", "2",
                                                  "--checkpoint.every", "0"})));
  ASSERT_TRUE(program.wait_for([](const std::string& out) { return out.find("step      5/") != std::string::npos; }))
      << program.output();
  kill(rank_of(program, 2), SIGTERM);
  const Outcome outcome = program.finish();
  const int64_t step = progress("run").step;
  EXPECT_GE(step, 5);
  EXPECT_THAT(outcome.output, HasSubstr("saving after step " + std::to_string(step)));
}

}  // namespace
}  // namespace trireme
