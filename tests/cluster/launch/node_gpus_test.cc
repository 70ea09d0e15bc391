// What preflight says of the GPUs of a job's hosts.

#include "cluster/launch/node_gpus.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/expect_error.h"

namespace trireme::launch {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

HostGpus good_host(int gpus = 4) {
  HostGpus host;
  host.gpus.driver = "580.159.04";
  host.gpus.cuda = 13000;
  for (int i = 0; i < gpus; ++i)
    host.gpus.gpus.push_back({.name = "NVIDIA A100-SXM4-80GB",
                              .major = 8,
                              .memory_bytes = uint64_t{80} << 30,
                              .free_bytes = uint64_t{79} << 30});
  host.gpus.links.assign(static_cast<size_t>(gpus), std::vector<std::string>(static_cast<size_t>(gpus), "NV12"));
  for (size_t i = 0; i < host.gpus.links.size(); ++i) host.gpus.links[i][i] = "";
  host.usable = {.hardware = "NVIDIA A100-SXM4-80GB", .why_none = "", .network = "NCCL 2.28.9"};
  return host;
}

class JudgeGpus : public testing::Test {
 protected:
  std::string problems() {
    const GpuVerdict verdict = judge_gpus(placement, hosts, wish, gpus_per_node);
    notes = verdict.notes;
    used = verdict.used;
    ranks = verdict.ranks;
    std::string text;
    for (const Problem& problem : verdict.problems) text += to_text(problem) + "\n";
    return text;
  }
  std::vector<Placement> placement{{"n1", 4}, {"n2", 4}, {"n3", 4}};
  std::vector<HostGpus> hosts{good_host(), good_host(), good_host()};
  GpuWish wish = GpuWish::required;
  int gpus_per_node = 0;
  std::vector<std::string> notes;
  std::vector<int> ranks;
  bool used = false;
};

TEST_F(JudgeGpus, LikeHostsPass) {
  EXPECT_EQ(problems(), "");
  EXPECT_TRUE(used);
  EXPECT_EQ(ranks, (std::vector<int>{4, 4, 4}));
  EXPECT_THAT(notes, Contains("GPUs of every host: 4 x NVIDIA A100-SXM4-80GB, driver 580.159.04, NCCL 2.28.9"));
  wish = GpuWish::none;
  EXPECT_EQ(problems(), "");
  EXPECT_FALSE(used);
}

TEST_F(JudgeGpus, WhatDiffersIsNamedWithTheHost) {
  hosts[1].gpus.driver = "550.54";
  EXPECT_EQ(problems(),
            "n2: the driver differs: 550.54 there, 580.159.04 on 2 other hosts; install the same driver on every "
            "host\n");
  hosts[1] = good_host();
  hosts[2].usable.network = "NCCL 2.18.1";
  EXPECT_EQ(problems(),
            "n3: what connects GPUs differs: NCCL 2.18.1 there, NCCL 2.28.9 on 2 other hosts; install the same NCCL on "
            "every host\n");
  hosts[2] = good_host();
  hosts[0].gpus.gpus[0].name = "NVIDIA RTX A6000";
  EXPECT_THAT(problems(), HasSubstr("n1: the first GPU differs: NVIDIA RTX A6000 there, NVIDIA A100-SXM4-80GB on 2 "
                                    "other hosts; start the job on hosts with the same GPUs\n"));
  hosts[0] = good_host();
  hosts[0].gpus.links[0][1] = hosts[0].gpus.links[1][0] = "SYS";
  EXPECT_THAT(problems(), HasSubstr("n1: the links between GPUs differ: - SYS NV12 NV12/SYS - NV12 NV12/"));
  EXPECT_THAT(problems(), HasSubstr("`nvidia-smi nvlink --status` names a link that is down"));
  hosts[0] = good_host(8);
  EXPECT_THAT(problems(), HasSubstr("n1: the number of GPUs differs: 8 there, 4 on 2 other hosts; leave the host out "
                                    "with --exclude\n"));
}

TEST_F(JudgeGpus, AHostNeedsAGpuForEachRank) {
  placement[1].processes = 8;
  EXPECT_EQ(problems(),
            "n2: 8 ranks for 4 GPUs; start one rank per GPU: the slots of the hostfile, --ppn or --gpus-per-node\n");
  placement[1].processes = 2;
  gpus_per_node = 8;
  EXPECT_THAT(problems(), HasSubstr("n2: it has 4 GPUs, but --gpus-per-node is 8; lower --gpus-per-node, or leave the "
                                    "host out with --exclude\n"));
  gpus_per_node = 0;
  placement[1].processes = 4;
  hosts[1].visible = "0,3";
  EXPECT_EQ(problems(),
            "n2: 4 ranks for 2 GPUs (CUDA_VISIBLE_DEVICES is \"0,3\"); start one rank per GPU: the slots of the "
            "hostfile, --ppn or --gpus-per-node\n");
  EXPECT_EQ(ranks, (std::vector<int>{4, 2, 4}));
}

TEST_F(JudgeGpus, CudaCountsWhatItShows) {
  HostGpus host = good_host(8);
  EXPECT_EQ(host.count(), 8);
  for (const auto& [visible, count] :
       {std::pair{"", 0}, {"3", 1}, {"0,1,2", 3}, {"-1", 0}, {"2,-1,3", 1}, {"GPU-0,GPU-1", 2}}) {
    host.visible = visible;
    EXPECT_EQ(host.count(), count) << visible;
  }
  host.gpus = {};
  EXPECT_EQ(host.count(), std::nullopt);
}

TEST_F(JudgeGpus, WhatKeepsAGpuFromUseIsAProblemAndWhatSlowsItIsSaid) {
  hosts[1].gpus.gpus[2].fault = "GPU is lost (code 15)";
  for (auto& row : hosts[1].gpus.links) row[2] = "";
  hosts[2].gpus.gpus[0].mig = true;
  EXPECT_EQ(problems(),
            "n2: GPU 2: GPU is lost (code 15); reset it (nvidia-smi --gpu-reset) or restart the node\n"
            "n3: GPU 0: MIG partitions it; turn MIG off with `nvidia-smi -mig 0` to use the whole GPU\n");
  hosts[2] = good_host();
  hosts[1].visible = "0,1,3";
  placement[1].processes = 3;
  EXPECT_EQ(problems(), "") << "one is hidden";
  EXPECT_THAT(notes, Contains(HasSubstr("n2: GPU 2: GPU is lost (code 15)")));
  hosts = {good_host(), good_host(), good_host()};
  hosts[0].gpus.gpus[1].uncorrected_errors = 3;
  hosts[0].gpus.apart = {{0, 1}};
  EXPECT_EQ(problems(), "");
  EXPECT_THAT(notes, Contains(HasSubstr("n1: GPU 1: 3 memory errors that ECC could not correct")));
  EXPECT_THAT(notes, Contains(HasSubstr("n1: GPU 0 and GPU 1 do not reach each other's memory")));
}

TEST_F(JudgeGpus, AHostWithoutOneIsNamed) {
  hosts[1].usable = {"", "this build has no libtrireme_cuda.so (docs/gpu.md)"};
  EXPECT_EQ(problems(),
            "n2: no GPU that this program can use: this build has no libtrireme_cuda.so (docs/gpu.md); `trireme "
            "device` there shows more; --run.device cpu computes without GPUs\n");
  wish = GpuWish::automatic;
  EXPECT_EQ(problems(), "");
  EXPECT_FALSE(used);
  EXPECT_THAT(notes, Contains(HasSubstr("n2: no GPU that this program can use: this build has no libtrireme_cuda.so "
                                        "(docs/gpu.md); so all ranks compute on CPUs (--run.device cuda makes it an "
                                        "error)")));
  for (HostGpus& host : hosts) host.usable = hosts[1].usable;
  EXPECT_EQ(problems(), "");
  EXPECT_THAT(notes, IsEmpty()) << "a cluster without GPUs";
}

TEST_F(JudgeGpus, NothingThatConnectsGpusIsAProblem) {
  hosts[1].usable.network = "";
  hosts[1].usable.why_no_network = "found no NCCL; pip install nvidia-nccl-cu13";
  EXPECT_THAT(problems(), HasSubstr("n2: found no NCCL; pip install nvidia-nccl-cu13\n"));
}

TEST(HostGpus, IsReadBack) {
  HostGpus host = good_host(2);
  host.visible = "1";
  host.gpus.apart = {{0, 1}};
  const Json json = to_json(host);
  EXPECT_EQ(to_json(host_gpus_from_json(json)), json);
  EXPECT_ERROR(host_gpus_from_json(Json{{"usable", "x"}}), ErrorKind::data, "not a description of a host's GPUs");
}

}  // namespace
}  // namespace trireme::launch
