#include "bench/goals.h"

#include <gmock/gmock.h>

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kH100 = "NVIDIA H100 80GB HBM3, compute capability 9.0, driver 13.0, runtime 13.0";
constexpr const char* kA100 = "NVIDIA A100-SXM4-80GB, compute capability 8.0, connected by NCCL 2.28.9";

TEST(Goals, AreOfAModelACardAndItsNumber) {
  EXPECT_EQ(find_goal("gpt2-124m", kH100, 1, 1)->value, 463e3);
  EXPECT_EQ(find_goal("neox-1.3b", kH100, 1, 1)->value, 45e3);
  EXPECT_EQ(find_goal("gpt2-1558m", kH100, 1, 1)->value, 47e3);
  EXPECT_EQ(find_goal("neox-2.7b", kH100, 1, 1)->value, 27e3);
  EXPECT_EQ(find_goal("opt-125m", kA100, 8, 1)->value, 200e3);
  EXPECT_EQ(find_goal("all_reduce", kA100, 16, 2)->value, 187);
  EXPECT_FALSE(find_goal("gpt2-124m", kH100, 8, 1));
  EXPECT_FALSE(find_goal("gpt2-124m", kA100, 1, 1));
  EXPECT_FALSE(find_goal("gpt2-124m", "the executor", 1, 1));
}

TEST(Goals, StandBesideTheResult) {
  const auto goal = find_goal("gpt2-124m", kH100, 1, 1);
  EXPECT_FALSE(compare_with_goal({}, 0, "tokens/s", 5, {}));
  const GoalResult reached = compare_with_goal(goal, 0, "tokens/s", 500e3, {}).value();
  EXPECT_TRUE(reached.reached());
  EXPECT_EQ(to_text(reached), "goal               463000 tokens/s (one H100, llm.c on an H100): 108.0 % reached\n");
  const GoalResult below = compare_with_goal(goal, 0, "tokens/s", 397e3, {"cuBLASLt 130200"}).value();
  EXPECT_FALSE(below.reached());
  EXPECT_THAT(to_text(below),
              HasSubstr("463000 tokens/s (one H100, llm.c on an H100): 85.7 % only\nlikely cause       "));
  EXPECT_EQ(compare_with_goal(goal, 100, "tokens/s", 150, {})->text, "100 tokens/s (--goal): 150.0 % reached");
}

TEST(Goals, NameTheLikelyCausesOfLess) {
  NodeGpu gpu{.name = "NVIDIA H100 80GB HBM3", .major = 9, .memory_bytes = 80, .free_bytes = 80};
  gpu.pcie_width = 8, gpu.most_pcie_width = 16;
  NodeGpus node{.driver = "580.159.04", .gpus = {gpu, gpu}, .links = {{"", "SYS"}, {"SYS", ""}}};
  node.gpus[1].pcie_width = 16;
  const std::vector<ClockState> clocks{
      {.gpu = 0, .reasons = {"HW Thermal Slowdown"}, .megahertz = 900, .most_megahertz = 1980},
      {.gpu = 1, .reasons = {}, .megahertz = 1900, .most_megahertz = 1980}};
  EXPECT_THAT(likely_causes(node, clocks, {"cuBLASLt 130200"}),
              ElementsAre("GPU 0: its clocks are held down: HW Thermal Slowdown",
                          "GPU 0: 900 MHz of 1980 MHz just after the measurement",
                          "GPU 0: PCIe x8 in use, x16 possible; copies are slower",
                          "GPUs 0 and 1 are connected by PCIe (SYS), not NVLink",
                          "attention is computed by this program's kernels; cuDNN's are faster (--cudnn)"));
  node.links = {};
  node.gpus = {};
  EXPECT_THAT(likely_causes(node, {}, {"cuBLASLt 130200", "cuDNN 9.19.0"}),
              ElementsAre("none was found; libraries: cuBLASLt 130200, cuDNN 9.19.0; driver 580.159.04"));
  EXPECT_THAT(read_clocks(), IsEmpty()) << "there is no driver here";
}

}  // namespace
}  // namespace trireme
