#include "cli/command.h"

#include <gmock/gmock.h>

#include <iostream>
#include <sstream>

#include "base/file.h"
#include "cli/launch_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using testing::HasSubstr;

class Wizard : public testing::Test {
 protected:
  /// Runs it with these answers typed, and gives what it wrote.
  std::string typed(const std::string& lines, std::vector<std::string> flags = {}) {
    std::istringstream input(lines);
    std::streambuf* before = std::cin.rdbuf(input.rdbuf());
    flags.insert(flags.end(), {"--output", file_});
    try {
      EXPECT_EQ(config_wizard(flags), 0);
    } catch (...) {
      std::cin.rdbuf(before);
      std::cin.clear();
      throw;
    }
    std::cin.rdbuf(before);
    std::cin.clear();
    return read_text(file_);
  }
  LaunchRequest launched(LaunchRequest request = {}) {
    note_ = apply_launch_file(file_, request);
    return request;
  }
  std::string note_;  ///< of the last launched()
  TemporaryFolder folder_;
  std::string file_ = folder_ / "cluster.yaml";
};

TEST_F(Wizard, EmptyAnswersAreAcceleratesDefaults) {
  const std::string text = typed("\n\n\n\n\n\n\n");
  for (const char* line :
       {"distributed_type: NO\n", "mixed_precision: 'no'\n", "num_machines: 1\n", "num_processes: 1\n",
        "machine_rank: 0\n", "rdzv_backend: static\n", "same_network: true\n", "use_cpu: false\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(launched().placement.per_host, 1);
  EXPECT_TRUE(launched().defaults.empty());
}

TEST_F(Wizard, AnswersForSeveralMachinesReachLaunch) {
  // environment, machine, machines, rank, ip, port, same network, debug, hostfile, ipex, dynamo, processes, precision
  const std::string text = typed("\nmulti-cpu\n3\n\n10.0.0.4\n29500\n\nyes\n/tmp/hosts\nyes\n\n6\nBF16\n");
  EXPECT_THAT(text, HasSubstr("\ndebug: true\nipex_config:\n  ipex: true\n"));
  EXPECT_THAT(text, HasSubstr("distributed_type: MULTI_CPU\n"));
  EXPECT_THAT(text, HasSubstr("main_process_ip: 10.0.0.4\nmain_process_port: 29500\n"));
  EXPECT_THAT(text, HasSubstr("mixed_precision: 'bf16'\nnum_machines: 3\nnum_processes: 6\n"));
  const LaunchRequest request = launched();
  EXPECT_EQ(request.hosts.hostfile, "/tmp/hosts");
  EXPECT_EQ(request.hosts.num_nodes, 3);
  EXPECT_EQ(request.placement.per_host, 2);
  EXPECT_EQ(request.port, 29500);
  EXPECT_THAT(request.defaults, testing::UnorderedElementsAre("precision.dtype=bf16", "run.device=cpu"));
}

TEST_F(Wizard, EveryAnswerIsAFlagAndNothingIsAskedThen) {
  const std::vector<std::string> flags = {
      "--machine-type", "multi-CPU", "--num-machines",    "2",    "--num_processes", "4", "--same-network", "no",
      "--rdzv-backend", "c10d",      "--mixed-precision", "bf16", "--defaults"};
  const std::string text = typed("", flags);
  EXPECT_THAT(text, HasSubstr("num_processes: 4\nrdzv_backend: c10d\nsame_network: false\nuse_cpu: true\n"));
  EXPECT_THAT(text, HasSubstr("mpirun_hostfile: '~/hostfile'\n"));
}

TEST_F(Wizard, AWrongAnswerIsAskedAgainAndLosesNoOther) {
  // Also where the input is no terminal, and where an answer does not go with an earlier one.
  const std::string text = typed(
      "moon\n\nmulti-cpu\nmany\n3\n7\n1\n\nssh\n29500\nperhaps\n\n\n/tmp/a:b\n/tmp/hosts\n\n\n4\n6\nfp16\nbf16\n");
  EXPECT_THAT(text, HasSubstr("num_machines: 3\nnum_processes: 6\n"));
  EXPECT_THAT(text, HasSubstr("machine_rank: 1\n"));
  EXPECT_THAT(text, HasSubstr("main_process_port: 29500\n"));
  EXPECT_THAT(text, HasSubstr("mpirun_hostfile: '/tmp/hosts'"));
  EXPECT_THAT(text, HasSubstr("mixed_precision: 'bf16'\n"));
}

TEST_F(Wizard, InputThatEndsBeforeTheQuestionsIsAnErrorAndWritesNothing) {
  EXPECT_ERROR(typed(""), ErrorKind::usage,
               "the input ended before \"In which compute environment are you running?\" was answered; nothing was "
               "written. Answer it with --compute-environment, or add --defaults");
  EXPECT_ERROR(typed("\nmulti-CPU\n3\n\n\n\n\n\n\n\n\nfp16\n"), ErrorKind::usage,
               "the input ended before \"How many processes, one per GPU or CPU, should be used");
  EXPECT_FALSE(std::filesystem::exists(file_));
  typed("\n\n\n\n\n\n", {"--mixed-precision", "bf16"});  // a flag's question needs no line
}

TEST_F(Wizard, SeveralGpusAreWrittenAsAccelerateDoes) {
  const std::string text = typed("", {"--machine-type", "multi-gpu", "--num-machines", "2", "--num-processes", "16",
                                      "--mixed-precision", "fp16", "--defaults"});
  EXPECT_THAT(text, HasSubstr("distributed_type: MULTI_GPU\n"));
  EXPECT_THAT(text, HasSubstr("use_cpu: false\n"));
  const LaunchRequest request = launched();
  EXPECT_EQ(request.placement.per_host, 8);
  EXPECT_THAT(request.defaults, testing::IsSupersetOf({"run.device=cuda", "precision.dtype=f16"}));
}

TEST_F(Wizard, OneProcessPerMachineIsTheDefault) {
  EXPECT_THAT(typed("", {"--machine-type", "multi-CPU", "--num-machines", "3", "--defaults"}),
              HasSubstr("num_machines: 3\nnum_processes: 3\n"));
}

TEST_F(Wizard, WrongFlagsAndFoldersAreReportedBeforeAnyQuestion) {
  std::istringstream input("\n\n\n\n\n\n\n");
  std::streambuf* before = std::cin.rdbuf(input.rdbuf());
  EXPECT_ERROR(config_wizard({"--mixed-precision", "fp8", "--output", file_}), ErrorKind::usage, "in bf16, f32 and");
  EXPECT_ERROR(config_wizard({"--output", folder_ / "absent/c.yaml"}), ErrorKind::io, "does not exist");
  EXPECT_ERROR(config_wizard({"--output", folder_.path()}), ErrorKind::io, "is a folder; give the name of a file");
  EXPECT_EQ(input.tellg(), 0);
  std::cin.rdbuf(before);
}

TEST_F(Wizard, FlagsOfLaunchWinOverTheFile) {
  typed("", {"--machine-type", "multi-CPU", "--num-machines", "2", "--num-processes", "4", "--defaults"});
  LaunchRequest request;
  request.hosts.hosts = "a,b,c";
  request.hosts.num_nodes = 3;
  request.placement.processes = 3;
  request = launched(request);
  EXPECT_EQ(request.hosts.hostfile, "");
  EXPECT_EQ(request.hosts.num_nodes, 3);
  EXPECT_EQ(request.placement.per_host, 0);
}

TEST_F(Wizard, ImpossibleChoicesAreRefused) {
  const auto run = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--defaults", "--output", file_});
    config_wizard(flags);
  };
  EXPECT_ERROR(run({"--machine-type", "multi-XPU"}), ErrorKind::usage, "training computes on CPUs and NVIDIA's GPUs");
  EXPECT_ERROR(run({"--compute-environment", "aws sagemaker"}), ErrorKind::usage, "is not supported");
  EXPECT_ERROR(run({"--mixed-precision", "fp8"}), ErrorKind::usage, "in bf16, f32 and, on GPUs, f16");
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--cpu", "yes"}, {"--machine-type", "multi-CPU"}})
    EXPECT_ERROR(run({flags[0], flags[1], "--mixed-precision", "fp16"}), ErrorKind::usage,
                 "--mixed-precision fp16 needs GPUs");
  EXPECT_ERROR(run({"--dynamo", "yes"}), ErrorKind::usage, "torch is not used");
  EXPECT_ERROR(run({"--machine-type", "multi-CPU", "--num-machines", "0"}), ErrorKind::usage,
               "expected a whole number from 1");
  EXPECT_ERROR(run({"--machine-type", "multi-CPU", "--num-machines", "2", "--num-processes", "3"}), ErrorKind::usage,
               "cannot be distributed evenly");
  EXPECT_ERROR(
      run({"--machine-type", "multi-CPU", "--num-machines", "2", "--num-processes", "2", "--machine-rank", "2"}),
      ErrorKind::usage, "--machine-rank 2: 2 machines have ranks 0 to 1");
  for (const char* port : {"0", "65536", "ssh"}) {
    EXPECT_ERROR(run({"--machine-type", "multi-CPU", "--num-machines", "2", "--main-process-port", port}),
                 ErrorKind::usage, "expected a port from 1 to 65535");
  }
  EXPECT_ERROR(run({"--num-machines", "2"}), ErrorKind::usage, "--num-machines contradicts the other answers");
  EXPECT_FALSE(std::filesystem::exists(file_));
}

// The answers of Intel's guide and of others: one process on each machine.
constexpr const char* kGuidesFile =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_CPU\ndowncast_bf16: 'no'\nipex_config:\n  ipex: true\n"
    "machine_rank: 0\nmain_process_ip: 10.0.0.4\nmain_process_port: 29500\nmain_training_function: main\n"
    "mixed_precision: bf16\nnum_machines: 3\nnum_processes: 1\nrdzv_backend: static\nsame_network: true\ntpu_env: []\n"
    "tpu_use_cluster: false\ntpu_use_sudo: false\nuse_cpu: true\n";

TEST_F(Wizard, ProcessesBelowTheMachinesAreCountedPerMachine) {
  write_text(file_, kGuidesFile);
  const LaunchRequest request = launched();
  EXPECT_EQ(request.hosts.num_nodes, 3);
  EXPECT_EQ(request.placement.per_host, 1);
  EXPECT_THAT(note_, HasSubstr("num_processes 1 is below num_machines 3, so it counts processes per machine: 3 ranks"));
  std::string two = kGuidesFile;
  two.replace(two.find("num_processes: 1"), 16, "num_processes: 2");
  write_text(file_, two);
  EXPECT_EQ(launched().placement.per_host, 2);
}

TEST_F(Wizard, GivenNumbersOfRanksWinOverTheFileAndSaySo) {
  write_text(file_, kGuidesFile);
  LaunchRequest six;
  six.placement.processes = 6;
  EXPECT_EQ(launched(six).placement.processes, 6);
  EXPECT_THAT(note_, HasSubstr("6 ranks are asked for, so num_processes 1 of"));
  LaunchRequest two;
  two.placement.per_host = 2;
  EXPECT_EQ(launched(two).placement.per_host, 2);
  EXPECT_THAT(note_, HasSubstr("6 ranks are asked for"));
  LaunchRequest same;
  same.placement.processes = 3;
  launched(same);
  EXPECT_EQ(note_, "");
  write_text(file_, "distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 3\n");
  EXPECT_EQ(launched(same).placement.processes, 3) << "the file's number need not divide then";
}

TEST_F(Wizard, OneProcessForSeveralMachinesIsAnAnswer) {
  const std::string text =
      typed("", {"--machine-type", "multi-CPU", "--num-machines", "3", "--num-processes", "1", "--defaults"});
  EXPECT_THAT(text, HasSubstr("num_machines: 3\nnum_processes: 3\n"));
  EXPECT_EQ(launched().placement.per_host, 1);
  EXPECT_EQ(note_, "");
}

TEST_F(Wizard, TheAnswersOfAccelerateFitWhateverItsVersionAsks) {
  const std::pair<const char*, const char*> transcripts[] = {
      // 0.21: environment, machine, machines, rank, ip, port, network, IPEX, dynamo, processes, precision
      {"0.21", "This machine\nmulti-CPU\n3\n0\n10.0.0.4\n29500\nYES\nyes\nNO\n1\nbf16\n"},
      {"0.21, indices of the menus", "0\n1\n3\n0\n10.0.0.4\n29500\n\n\n\n1\n2\n"},
      {"0.21, with its questions",
       "-----In which compute environment are you running?\nThis machine\n-----Which type of machine are you using?\n"
       "multi-CPU\nHow many different machines will you use (use more than 1 for multi-node training)? [1]: 3\n"
       "-----What is the rank of this machine?\n0\nWhat is the IP address of the machine that will host the main "
       "process? 10.0.0.4\nWhat is the port you will use to communicate with the main process? 29500\nAre all the "
       "machines on the same local network? Answer `no` if nodes are on the cloud and/or on different network hosts "
       "[YES/no]: \nDo you want to use Intel PyTorch Extension (IPEX) to speed up training on CPU? [yes/NO]:yes\nDo "
       "you "
       "wish to optimize your script with torch dynamo?[yes/NO]:NO\nHow many CPU(s) should be used for distributed "
       "training? [1]:1\n-----Do you wish to use FP16 or BF16 (mixed precision)?\nbf16\n"},
      // + whether operations are checked
      {"0.22", "This machine\nmulti-CPU\n3\n0\n10.0.0.4\n29500\nyes\nno\nno\nno\n1\nbf16\n"},
      // no IPEX, but mpirun with its hostfile and oneCCL's threads
      {"1.0", "This machine\nmulti-CPU\n3\n0\n10.0.0.4\n29500\nyes\nno\nyes\n/tmp/hosts\n1\nno\n1\nbf16\n"}};
  for (const auto& [version, answers] : transcripts) {
    SCOPED_TRACE(version);
    const std::string text = typed(answers);
    EXPECT_THAT(text, HasSubstr("distributed_type: MULTI_CPU\n"));
    EXPECT_THAT(text, HasSubstr("main_process_ip: 10.0.0.4\nmain_process_port: 29500\n"));
    EXPECT_THAT(text, HasSubstr("mixed_precision: 'bf16'\nnum_machines: 3\nnum_processes: 3\n"));
  }
  EXPECT_THAT(read_text(file_), HasSubstr("mpirun_hostfile: '/tmp/hosts'"));
}

TEST_F(Wizard, OtherFilesThanAcceleratesAreRefusedByLaunch) {
  write_text(file_, "model: {layers: 1}\n");
  EXPECT_ERROR(launched(), ErrorKind::config, "distributed_type is missing");
  write_text(file_, "distributed_type: MULTI_CPU\nnum_machines: 2\nnum_processes: 3\n");
  EXPECT_ERROR(launched(), ErrorKind::config, "num_processes 3 cannot be distributed evenly over num_machines 2");
}

}  // namespace
}  // namespace trireme
