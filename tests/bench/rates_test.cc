#include "bench/device/rates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace trireme::device_check {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// GPUs at 0000:01:00.0, 0000:02:00.0, ..., each pair connected by `link`.
NodeGpus node_with(size_t gpus, const std::string& link) {
  NodeGpus node{.driver = "580.159.04", .cuda = 13000};
  for (size_t i = 0; i < gpus; ++i) {
    NodeGpu gpu{.name = "NVIDIA H100 80GB HBM3", .bus = fmt::format("00000000:{:02}:00.0", i + 1), .major = 9};
    gpu.memory_bytes = gpu.free_bytes = 80;
    gpu.pcie_generation = gpu.most_pcie_generation = 4;
    gpu.pcie_width = gpu.most_pcie_width = 16;
    node.gpus.push_back(gpu);
    node.links.emplace_back(gpus, link);
    node.links.back()[i] = "";
  }
  return node;
}

std::vector<std::string> places(size_t gpus) {
  std::vector<std::string> all;
  for (size_t i = 0; i < gpus; ++i) all.push_back(fmt::format("0000:{:02}:00.0", i + 1));
  return all;
}

const DataSheet kH100 = data_sheet_of("NVIDIA H100 80GB HBM3"), kA100 = data_sheet_of("NVIDIA A100-SXM4-80GB");

TEST(Rates, CopiesReachSixTenthsOfTheirPcieLink) {
  NodeGpus node = node_with(2, "NV18");
  const auto judge = [&](double to, double from) { return judge_copies(to, from, node, "0000:02:00.0"); };
  Judgement judgement = judge(25e9, 24e9);
  EXPECT_FALSE(judgement.slow);
  EXPECT_EQ(judgement.text, "pinned 79 and 76 % of the 31.5 GB/s of PCIe 4.0 x16");
  EXPECT_EQ(judge(25e9, 18e9).text,
            "pinned 79 and 57 % of the 31.5 GB/s of PCIe 4.0 x16, but at least 60 % is expected");
  EXPECT_TRUE(judge(18e9, 25e9).slow);
  EXPECT_THAT(judge(18e9, 25e9).causes, ElementsAre());
  node.gpus[1].pcie_width = 8;
  node.gpus[1].pcie_generation = 3;
  EXPECT_FALSE(judge(25e9, 24e9).slow);  // the rates are what counts
  EXPECT_THAT(judge(6e9, 6e9).causes,
              ElementsAre("GPU 1 uses x8 of x16 lanes: reseat it, or move it to another slot",
                          "GPU 1 uses generation 3 of PCIe, 4 is possible: look at the slot and the BIOS"));
  // A card in a slot of fewer lanes or of an older generation has no better link.
  node.gpus[1].most_pcie_width = 8;
  node.gpus[1].most_pcie_generation = 3;
  EXPECT_FALSE(judge(6e9, 6e9).slow);
}

TEST(Rates, CopiesOverAnUnknownLinkAreNotJudged) {
  NodeGpus node = node_with(2, "NV18");
  EXPECT_EQ(judge_copies(1, 1, node, "0000:09:00.0").text,
            "not judged: the driver's library lists no GPU at 0000:09:00.0");
  node.gpus[1].most_pcie_width.reset();
  EXPECT_EQ(judge_copies(1, 1, node, "0000:02:00.0").text,
            "not judged: the driver's library does not say which PCIe link GPU 1 has");
  node.gpus[0].most_pcie_generation = 9;
  EXPECT_FALSE(judge_copies(1, 1, node, "0000:01:00.0").slow);
  EXPECT_EQ(judge_copies(1, 1, {.why_none = "this node has no NVIDIA driver"}, "0000:01:00.0").text,
            "not judged: this node has no NVIDIA driver");
}

TEST(Rates, SumsReachHalfOfTheCardsNvlinks) {
  const NodeGpus node = node_with(8, "NV18");
  const Judgement good = judge_links(360e9, kH100, node, places(8));
  EXPECT_FALSE(good.slow);
  EXPECT_EQ(good.text, "the library's own 80 % of the 450 GB/s of a H100 80GB HBM3's NVLinks");
  const Judgement slow = judge_links(40e9, kH100, node, places(8));
  EXPECT_TRUE(slow.slow);
  EXPECT_THAT(slow.text, HasSubstr("the library's own 9 % of the 450 GB/s"));
  EXPECT_THAT(slow.text, HasSubstr(", but at least 50 % is expected"));
  EXPECT_THAT(slow.causes, ElementsAre(HasSubstr("messages take another way than the links: NCCL_DEBUG=INFO")));
  EXPECT_TRUE(judge_links(40e9, kH100, node, places(2)).slow);  // switches: two GPUs have all links between them

  NodeGpus one_down = node;
  for (size_t i = 1; i < 8; ++i) one_down.links[0][i] = one_down.links[i][0] = "NV9";
  EXPECT_THAT(judge_links(40e9, kH100, one_down, places(8)).causes, ElementsAre("GPU 0 has 9 of 18 NVLinks up"));
  NodeGpus none = node_with(2, "SYS");
  none.apart.emplace_back(0, 1);
  EXPECT_THAT(judge_links(40e9, kH100, none, places(2)).causes,
              ElementsAre(HasSubstr("GPU 0 has no NVLink to the others"), HasSubstr("GPU 1 has no NVLink"),
                          HasSubstr("GPU 0 and GPU 1 do not reach each other's memory")));
}

TEST(Rates, SumsOverUnknownLinksAreNotJudged) {
  const NodeGpus node = node_with(4, "NV4");  // a board without switches: four links to each of the three others
  EXPECT_FALSE(judge_links(200e9, kA100, node, places(4)).slow);
  EXPECT_TRUE(judge_links(60e9, kA100, node, places(4)).slow);
  const auto reason = [&](const DataSheet& sheet, const NodeGpus& gpus, const std::vector<std::string>& where) {
    const Judgement judgement = judge_links(1, sheet, gpus, where);
    EXPECT_FALSE(judgement.slow);
    EXPECT_EQ(judgement.expected, 0);
    return judgement.text;
  };
  EXPECT_EQ(reason(kA100, node, places(2)),
            "not judged: 2 of the node's 4 GPUs have 4 of the 12 NVLinks of a A100-SXM4-80GB between them");
  EXPECT_EQ(reason({}, node, places(4)), "not judged: no data sheet of this GPU is known");
  EXPECT_EQ(reason(data_sheet_of("NVIDIA RTX A6000"), node, places(4)),
            "not judged: the data sheet of a RTX A6000 has no NVLink for all of a node");
  EXPECT_EQ(reason(kA100, node, {"0", "1"}), "not judged: the driver's library lists no GPU at 0");
}

TEST(Rates, WhatIsSlowFailsTheCheckWithItsCauses) {
  Result result{.text = "rates"};
  add(not_judged("unknown"), result);
  EXPECT_EQ(result.verdict, Verdict::ok);
  add({.text = "5 %", .slow = true, .causes = {"a", "b"}}, result);
  EXPECT_EQ(result.verdict, Verdict::failed);
  EXPECT_EQ(result.text, "rates; not judged: unknown; 5 %; likely causes: a; b");
}

}  // namespace
}  // namespace trireme::device_check
