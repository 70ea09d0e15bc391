// `trireme device check` as a user runs it, on the executor: each check fails in turn because the executor spoils what
// it is about (executor_library.cc).

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "tests/gpu/gpu_program.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DeviceCheck : public ::testing::Test {
 protected:
  std::vector<std::string> words(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"device", "check", "--quick", "--threads", "1", "--report", folder_ / "report"});
    return more;
  }
  Outcome check(std::vector<std::string> more = {}) const { return gpu_(words(std::move(more))); }
  Json report() const { return read_json(folder_ / "report.json"); }

  TemporaryFolder folder_;
  ProgramOnGpu gpu_;
};

TEST_F(DeviceCheck, AllIsWellOnTheExecutor) {
  const Outcome all = gpu_(words(), {ProgramOnGpu::with_nvml()});
  EXPECT_EQ(all.code, 0) << all.output;
  EXPECT_THAT(all.output,
              AllOf(HasSubstr("GPU          the executor, on "), HasSubstr("libraries    plain loops\n"),
                    HasSubstr("shapes       a model of 2 layers of width 64, 2 x 32 tokens, 4 training steps\n"),
                    HasSubstr("training     4 steps on the CPU take about "),
                    HasSubstr("verdict      ok: 9 checks of 1 GPU; a quick check: not the shapes of a model\n")));
  for (const char* name : {"copies", "events", "products", "operators", "bits", "cudnn", "training", "resume", "links"})
    EXPECT_THAT(all.output, HasSubstr(fmt::format("{:<12} ok           ", name)));
  const Json document = report();
  EXPECT_EQ(document.at("verdict"), "ok");
  EXPECT_EQ(document.at("gpus").at(0).at("checks").size(), 9u);
  const Json copies = document.at("gpus").at(0).at("checks").at(0);
  EXPECT_EQ(copies.at("check"), "copies");
  EXPECT_GT(copies.at("figures").at("pinned_to_gpu_bytes_per_s").get<double>(), 0);
  EXPECT_THAT(document.at("program").get<std::string>(), HasSubstr("commit"));
  EXPECT_EQ(document.at("node").at("driver"), "580.159.04");
  EXPECT_THAT(read_text(folder_ / "report.txt"), AllOf(HasSubstr("trireme device check, trireme "), HasSubstr(" UTC\n"),
                                                       HasSubstr("\nverdict      ok: 9 ")));
}

TEST_F(DeviceCheck, EveryCheckFailsWhereItsSubjectIsBroken) {
  struct Fault {
    const char *check, *spoils, *message;
  };
  constexpr Fault kFaults[] = {
      {"copies", "copy",
       "what went to the GPU and back through pageable memory is not what was sent: byte 0 of 1048576"},
      {"copies", "copy_later", "what went to the GPU and back through pinned memory is not what was sent: byte 0"},
      {"events", "first-wait", "a stream that waits for an event of another one did not see its work: byte "},
      {"products", "linear", "linear of queries, keys, values in f32: y[0] is "},
      {"operators", "layer_norm", "layer_norm in f32: y[0] is "},
      {"bits", "adamw bit", "adamw in f32: first moment: 1 of 19201 elements have other bits, the first is [0]: "},
      {"bits", "squared_norms bit", "squared_norms in f32: squared norms: 1 of 1 elements have other bits"},
      {"bits", "dropout_backward zeros", "dropout in f32: mask: "},
      {"cudnn", "cudnn", "attention by cuDNN and by the CPU: out[0] is "},
      {"training", "adamw", "in f32, the loss of step "},
      {"resume", "copy_later", "the snapshot of step 2 on the GPU has other weights: hash "}};
  for (const auto& [name, spoils, message] : kFaults) {
    SCOPED_TRACE(spoils);
    const Variable spoiled("TRIREME_EXECUTOR_SPOILS", spoils);
    const Outcome outcome = check({"--only", name});
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(fmt::format("{:<12} failed       {}", name, message)),
                                      HasSubstr(fmt::format("verdict      failed: {}; a quick check", name))));
    EXPECT_EQ(report().at("verdict"), "failed");
    EXPECT_EQ(report().at("gpus").at(0).at("checks").at(0).at("result"), "failed");
  }
}

/// Copies on the executor reach some GB/s: a link of PCIe 5.0 x16 carries more than that, one lane of PCIe 1 less.
TEST_F(DeviceCheck, CopiesSlowerThanTheirPcieLinkFail) {
  const Variable place("TRIREME_EXECUTOR_BUSES", "0000:65:00.0");
  const auto copies = [&](const std::string& nvml) {
    return gpu_({"device", "check", "--only", "copies", "--threads", "1", "--report", folder_ / "report"},
                {ProgramOnGpu::with_nvml(), "FAKE_NVML=" + nvml});
  };
  const Outcome slow = copies("narrow generation-3");
  EXPECT_EQ(slow.code, 1) << slow.output;
  EXPECT_THAT(
      slow.output,
      AllOf(HasSubstr("copies       failed       GB/s to the GPU and from it: pageable "),
            HasSubstr(" % of the 63.0 GB/s of PCIe 5.0 x16, but at least 60 % is expected; likely causes: GPU 1 "
                      "uses x8 of x16 lanes: reseat it, or move it to another slot; GPU 1 uses generation 3 of "
                      "PCIe, 5 is possible: look at the slot and the BIOS"),
            HasSubstr("verdict      failed: copies; only copies")));
  EXPECT_NEAR(report().at("gpus").at(0).at("checks").at(0).at("figures").at("pcie_bytes_per_s").get<double>(), 63e9,
              1e8);
  EXPECT_THAT(copies("").output, HasSubstr("; likely cause: another program copies, or an IOMMU translates every "
                                           "access (start Linux with iommu=pt)"));
  const Outcome good = copies("slot-of-1");
  EXPECT_EQ(good.code, 0) << good.output;
  EXPECT_THAT(good.output, HasSubstr(" % of the 0.2 GB/s of PCIe 1.0 x1"));
  const Outcome unknown = copies("unknown-slot");
  EXPECT_EQ(unknown.code, 0) << unknown.output;
  EXPECT_THAT(unknown.output, HasSubstr("; not judged: the driver's library does not say which PCIe link GPU 1 has"));
  EXPECT_THAT(check({"--only", "copies"}).output, HasSubstr("; not judged: a quick check copies too little"));
}

TEST_F(DeviceCheck, SumsSlowerThanTheCardsNvlinksFail) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Variable gpus("TRIREME_EXECUTOR_GPUS", "2"), places("TRIREME_EXECUTOR_BUSES", "0000:17:00.0,0000:65:00.0"),
      card("TRIREME_EXECUTOR_CARD", "NVIDIA H100 80GB HBM3");
  const auto links = [&](const std::string& nvml, std::vector<std::string> more) {
    more.insert(more.begin(), {"device", "check", "--only", "links", "--threads", "1", "--report", folder_ / "report"});
    return gpu_.on_ranks(2, {ProgramOnGpu::with_nvml(), "FAKE_NVML=" + nvml}, more);
  };
  const Outcome slow = links("link-down", {});
  EXPECT_EQ(slow.code, 1) << slow.output;
  EXPECT_THAT(slow.output,
              AllOf(HasSubstr("links        failed       sockets: right sums over 2 GPUs, "),
                    HasSubstr("% of the 450 GB/s of a H100 80GB HBM3's NVLinks, but at least 50 % is expected; likely "
                              "causes: GPU 0 has 17 of 18 NVLinks up; GPU 1 has 17 of 18 NVLinks up ("),
                    HasSubstr("verdict      failed: links (rank 0), links (rank 1); only links")));
  const Outcome quick = links("", {"--quick"});
  EXPECT_EQ(quick.code, 0) << quick.output;
  EXPECT_THAT(quick.output, HasSubstr("; not judged: a quick check sums too little"));
}

TEST_F(DeviceCheck, WhatCannotBeCheckedHasAReason) {
  for (const auto& [name, spoils, reason] :
       {std::tuple{"cudnn", "no-cudnn",
                   "this program's kernels computed the attention, for the reason that the log gives"},
        std::tuple{"links", "no-network", "NCCL was not found"}}) {
    const Variable spoiled("TRIREME_EXECUTOR_SPOILS", spoils);
    const Outcome outcome = check({"--only", name});
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_THAT(outcome.output, AllOf(HasSubstr(fmt::format("{:<12} not checked  {}\n", name, reason)),
                                      HasSubstr(fmt::format("verdict      not checked: {}", name))));
  }
}

TEST_F(DeviceCheck, RanksCheckTheirLinks) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Variable gpus("TRIREME_EXECUTOR_GPUS", "2");
  const Outcome two = gpu_.on_ranks(2, words({"--only", "links,copies"}));
  EXPECT_EQ(two.code, 0) << two.output;
  EXPECT_THAT(two.output, AllOf(HasSubstr("links        ok           sockets: right sums over 2 GPUs, "),
                                HasSubstr("not judged: a quick check sums too little"),
                                HasSubstr("GPU          the executor, connected by sockets of rank 1, on "),
                                HasSubstr("verdict      ok: 4 checks of 2 GPUs;")));
  EXPECT_EQ(report().at("gpus").size(), 2u);
  {
    const Variable spoiled("TRIREME_EXECUTOR_SPOILS", "message");
    const Outcome wrong = gpu_.on_ranks(2, words({"--only", "links"}));
    EXPECT_EQ(wrong.code, 1) << wrong.output;
    EXPECT_THAT(wrong.output,
                AllOf(HasSubstr("links        failed       the library's own sum over 2 GPUs is wrong at element "),
                      HasSubstr("links        failed       the library's own sum failed on rank 0"),
                      HasSubstr("verdict      failed: links (rank 0), links (rank 1)")));
  }
  {
    const Variable fault("TRIREME_EXECUTOR_FAULT", "fails 1 1");
    const Outcome lost = gpu_.on_ranks(2, words({"--only", "links"}));
    EXPECT_EQ(lost.code, 1) << lost.output;
    EXPECT_THAT(lost.output, AllOf(HasSubstr("failed       training's sum over 2 GPUs did not complete within 15 s"),
                                   HasSubstr("failed       the twin of NCCL: an error that the test asked for")));
  }
  {
    const Variable fault("TRIREME_EXECUTOR_FAULT", "hangs 1 1");
    const Outcome hangs = gpu_.on_ranks(2, words({"--only", "links"}));
    EXPECT_EQ(hangs.code, 1) << hangs.output;
    EXPECT_THAT(hangs.output, HasSubstr("failed       training's sum over 2 GPUs did not complete within 15 s"));
  }
  const Variable one("TRIREME_EXECUTOR_GPUS", "1");
  const Outcome shared = gpu_.on_ranks(2, words());
  EXPECT_EQ(shared.code, 2) << shared.output;
  EXPECT_THAT(shared.output, HasSubstr("ranks 0 and 1 both use GPU 0 of "));
}

TEST_F(DeviceCheck, RefusesWhatItCannotDo) {
  const Outcome unknown = check({"--only", "copys"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.output, HasSubstr("--only copys: unknown check; the checks are copies, events, products, "));
  EXPECT_THAT(check({"--seq", "64"}).output, HasSubstr("--quick has its own sizes; remove it or --seq"));
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"device", "check"});
    const Outcome outcome = gpu_(more);
    EXPECT_EQ(outcome.code, 2);
    return outcome.output;
  };
  EXPECT_THAT(refused({"--model", "bert-tiny"}),
              HasSubstr("--model bert-tiny is not a language model that predicts the next token"));
  EXPECT_THAT(refused({"--seq", "2048"}), HasSubstr("--seq 2048 is longer than the 1024 positions of gpt2-124m"));
  const Outcome none = run(trireme_command({"device", "check", "--quick"}));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.output, ::testing::AnyOf(HasSubstr("there is no GPU to check: this build has no libtrireme_cuda.so"),
                                            HasSubstr("cannot be used")));
  const Outcome help = gpu_({"device", "check", "--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("Exit codes: 0: nothing failed; 1: a check failed, or none could run; 2: "),
                                 HasSubstr("mpirun -n 8 trireme device check"), Not(HasSubstr("--hosts"))));
}

}  // namespace
}  // namespace trireme
