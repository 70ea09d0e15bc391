// `trireme launch` where mpirun has started the ranks already, as `mpirun -n 3 accelerate launch` does.

#include <gmock/gmock.h>

#include "tests/runs/training_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class LaunchedByMpirun : public TrainingFixture {
 protected:
  void SetUp() override {
    if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
    write_text(path("cluster.yaml"),
               "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\nmachine_rank: 0\nmain_process_ip: "
               "10.0.0.4\nmain_process_port: 29500\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 2\n");
  }
  Outcome launch(std::vector<std::string> words, const std::vector<std::string>& command) const {
    words.insert(words.begin(), "launch");
    words.push_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return run(mpirun_command(2, words));
  }
  static int times(const std::string& text, const std::string& wanted) {
    int count = 0;
    for (size_t at = 0; (at = text.find(wanted, at)) != std::string::npos; at += wanted.size()) ++count;
    return count;
  }
};

TEST_F(LaunchedByMpirun, IsARankAndReadsAcceleratesFile) {
  const Outcome outcome = launch({"--config-file", path("cluster.yaml"), "--env", "TRIREME_JOB_ID=from-env"},
                                 train("run", {"--run.steps", "3"}));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(times(outcome.output, " started 2 ranks and chose hosts and placement"), 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("2 ranks x "));
  EXPECT_EQ(losses("run").size(), 3u);
  EXPECT_THAT(read_text(path("run/step-00000003/manifest.json")), testing::ContainsRegex("\"dtype\": *\"bf16\""));
}

TEST_F(LaunchedByMpirun, AnotherNumberOfRanksThanRequestedIsReportedOnce) {
  const Outcome flag = launch({"--np", "3"}, train("run"));
  EXPECT_EQ(flag.code, 2) << flag.output;
  EXPECT_EQ(times(flag.output, "error: --np is 3, but "), 1) << flag.output;
  EXPECT_FALSE(std::filesystem::exists(path("run")));
  // The number of a file is not one that was asked for.
  write_text(path("cluster.yaml"), "distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 4\n");
  const Outcome file = launch({"--config-file", path("cluster.yaml")}, train("run"));
  EXPECT_EQ(file.code, 0) << file.output;
  EXPECT_EQ(times(file.output, "launch: 2 ranks are asked for, so num_processes 4 of "), 1) << file.output;
}

TEST_F(LaunchedByMpirun, WhatOnlyLaunchItselfCanDoIsRefused) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--hosts", "a,b"}, {"--max-restarts", "2"}, {"--dry-run"}}) {
    const Outcome outcome = launch(words, train("run"));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output,
                HasSubstr("so " + words[0] + " has no effect; remove it, or run `trireme launch` without"));
  }
}

TEST_F(LaunchedByMpirun, AnyProgramCanBeTheRank) {
  const Outcome outcome = launch({"-genv", "WORD=two words", "--program"},
                                 {"sh", "-c", "echo \"$WORD\" of $((${PMI_SIZE:-$OMPI_COMM_WORLD_SIZE} + 0))"});
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(times(outcome.output, "two words of 2"), 2) << outcome.output;
  EXPECT_EQ(launch({"--program"}, {"/no/such/program"}).code, 2);
}

TEST(Launch, PreflightOnlySaysWhatItFoundAndADryRunWhatItLeavesOut) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const Outcome looked = run(trireme_command({"launch", "--hosts", "localhost", "--preflight-only"}));
  ASSERT_EQ(looked.code, 0) << looked.output;
  EXPECT_THAT(looked.output, HasSubstr("preflight: localhost can take the job: 1 rank"));
  EXPECT_THAT(looked.output, HasSubstr("preflight: nothing was started (--preflight-only)"));
  const std::vector<std::string> two = {"launch", "--hosts", "a,b", "--dry-run"};
  const auto dry = [&](std::vector<std::string> more) {
    more.insert(more.begin(), two.begin(), two.end());
    more.insert(more.end(), {"--", "train", "--run.dir", "x"});
    return run(trireme_command(more));
  };
  EXPECT_THAT(dry({}).output, HasSubstr("# A start checks the hosts first"));
  const Outcome skipped = dry({"--skip-preflight"});
  EXPECT_THAT(skipped.output, ::testing::Not(HasSubstr("checks the hosts first")));
  EXPECT_THAT(skipped.output, HasSubstr("# With --skip-preflight the hosts are not checked"));
}

TEST(Launch, CpuKeepsTheRanksOfATrainingOnCpus) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const auto started = [](const std::string& own, const std::vector<std::string>& command) {
    std::vector<std::string> words = {"launch", "--hosts", "a,b", "--dry-run", own, "--"};
    words.insert(words.end(), command.begin(), command.end());
    return run(trireme_command(words));
  };
  EXPECT_THAT(started("--cpu", {"train", "--run.dir", "x"}).output, HasSubstr("train --run.device=cpu --run.dir x"));
  EXPECT_THAT(started("--use_cpu", {"dpo", "--run.dir", "x"}).output, HasSubstr("dpo --run.device=cpu --run.dir x"));
  EXPECT_THAT(started("--num_cpu_threads_per_process=16", {"train", "--run.dir", "x"}).output,
              HasSubstr("train --launch.threads=16 --run.dir x"));
  const Outcome other = started("--cpu", {"prepare", "a.txt"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.output, HasSubstr("the command is trireme prepare, expected trireme train, sft, dpo or glue"));
}

TEST(Launch, AFileOfAccelerateGivesTheDefaultsOfTraining) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const TemporaryFolder folder;
  write_text(folder / "gpus.yaml",
             "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: fp16\n"
             "num_machines: 2\nnum_processes: 4\n");
  const Outcome outcome = run(trireme_command({"launch", "--hosts", "a,b", "--config-file", folder / "gpus.yaml",
                                               "--dry-run", "--", "train", "--run.dir", "x"}));
  EXPECT_THAT(outcome.output, HasSubstr("--default run.device=cuda"));
  EXPECT_THAT(outcome.output, HasSubstr("--default precision.dtype=f16"));
  EXPECT_THAT(outcome.output, HasSubstr("--default precision.loss-scale-window=2000"));
}

TEST(Launch, AnEmptyHostListDoesNotMeanThisHostAlone) {
  for (const std::string flag : {"-f", "--hostfile", "--hosts", "--sinfo", "--health", "--config-file"}) {
    const Outcome outcome = run(trireme_command({"launch", flag, "", "--", "--version"}));
    EXPECT_EQ(outcome.code, 2) << flag;
    EXPECT_THAT(outcome.output, HasSubstr("the value is empty; is a shell variable not set?")) << flag;
  }
  EXPECT_EQ(run(trireme_command({"hosts", "-f", ""})).code, 2);
  EXPECT_EQ(run(trireme_command({"health", "-f", "", "-e", "true"})).code, 2);
}

TEST(Launch, AProgramThatCannotBeStartedIsNotTriedAgain) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  for (const std::string program : {"/no/such/program", "no-such-program"}) {
    const Outcome outcome =
        run(trireme_command({"launch", "--hosts", "localhost", "--max-restarts", "1", "--program", "--", program}));
    EXPECT_EQ(outcome.code, 2) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(program));
    EXPECT_THAT(outcome.output, ::testing::Not(HasSubstr("restart 1 of 1")));
  }
}

TEST(Launch, GpusPerNodeAndItsRanksDoNotContradict) {
  if (mpirun_path().empty()) GTEST_SKIP() << "mpirun is missing";
  const auto launch = [](std::vector<std::string> words, const std::vector<std::string>& command) {
    words.insert(words.begin(), {"launch", "--hosts", "a,b", "--dry-run"});
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return run(trireme_command(words));
  };
  const std::vector<std::string> none = {"train", "--run.dir", "x"};
  EXPECT_THAT(launch({"--gpus-per-node", "8"}, none).output, HasSubstr("# 16 processes on 2 hosts\n"));
  EXPECT_THAT(launch({"--gpus-per-node", "8", "--np", "10"}, none).output, HasSubstr("# 10 processes on 2 hosts\n"));
  const Outcome many = launch({"--gpus-per-node", "4", "--ppn", "8"}, none);
  EXPECT_EQ(many.code, 2);
  EXPECT_THAT(many.output,
              HasSubstr("--ppn 8 starts more ranks on a host than the 4 GPUs of --gpus-per-node 4, and each "
                        "rank computes on one of its own; lower --ppn to 4, or leave out --gpus-per-node"));
  EXPECT_THAT(launch({"--gpus-per-node", "2"}, {"train", "--run.dir", "x", "--run.device", "cpu"}).output,
              HasSubstr("launch: --gpus-per-node 2: no rank uses a GPU, because run.device is cpu"));
}

TEST(Launch, ABlankContainerIsRefused) {
  const Outcome outcome = run(trireme_command({"launch", "--container", "  ", "--", "train", "x.yaml"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("--container is blank, expected words such as \"apptainer exec IMAGE\""));
}

class SlurmScript : public TrainingFixture {
 protected:
  Outcome script(const std::string& container) const {
    std::vector<std::string> words = {"slurm", "--container", container, "--container-mounts", "/a:/a", "--"};
    for (const std::string& word : train("run")) words.push_back(word);
    return run(trireme_command(words));
  }
};

TEST_F(SlurmScript, StartsARankPerGpu) {
  const auto script_of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"slurm", "--gpus-per-node", "8"});
    words.emplace_back("--");
    for (const std::string& word : train("run")) words.push_back(word);
    return run(trireme_command(words)).output;
  };
  EXPECT_THAT(script_of({}),
              ::testing::AllOf(HasSubstr("#SBATCH --gpus-per-node=8\n"), HasSubstr("#SBATCH --ntasks-per-node=8\n")));
  EXPECT_THAT(script_of({"--ntasks-per-node", "2"}), HasSubstr("#SBATCH --ntasks-per-node=2\n"));
  EXPECT_THAT(
      script_of({"--ntasks-per-node", "9"}),
      HasSubstr("--ntasks-per-node 9 starts more ranks on a node than the 8 GPUs of --gpus-per-node 8, and each "
                "rank computes on one of its own; lower it to 8, or leave out --gpus-per-node for ranks on "
                "CPUs"));
}

TEST_F(SlurmScript, AFileInTheCurrentFolderIsNotTakenForAnImageOfARegistry) {
  const std::string name = "image-" + std::to_string(getpid()) + ".sqsh";
  EXPECT_THAT(script(name).output, HasSubstr(" --container-image=" + name + " "));
  write_text(name, "");
  const Outcome found = script(name);
  std::filesystem::remove(name);
  EXPECT_THAT(found.output, HasSubstr(" --container-image=./" + name + " "));
  const Outcome missing = script("/nowhere/x.sqsh");
  EXPECT_EQ(missing.code, 0);
  EXPECT_THAT(missing.output, HasSubstr("--container: the file /nowhere/x.sqsh does not exist on this host; it must be "
                                        "there on the job's nodes"));
}

}  // namespace
}  // namespace trireme
