#include "comm/launcher.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "comm/process.h"

namespace trireme {
namespace {

Launcher detect(const std::map<std::string, std::string>& variables) {
  return detect_launcher([&](const char* name) {
    const auto it = variables.find(name);
    return it == variables.end() ? nullptr : it->second.c_str();
  });
}

TEST(Launcher, NoVariablesMeanNoLauncher) { EXPECT_EQ(detect({{"PATH", "/bin"}}).kind, Launcher::Kind::none); }

TEST(Launcher, OpenMpiGivesSizeAndRank) {
  const Launcher launcher = detect({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"PMIX_RANK", "3"}});
  EXPECT_EQ(launcher.kind, Launcher::Kind::open_mpi);
  EXPECT_EQ(launcher.size, 4);
  EXPECT_EQ(launcher.rank, 3);
}

TEST(Launcher, HydraAndMvapichAreRecognized) {
  EXPECT_EQ(detect({{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}).kind, Launcher::Kind::pmi);
  EXPECT_EQ(detect({{"MV2_COMM_WORLD_SIZE", "2"}, {"MV2_COMM_WORLD_RANK", "0"}, {"PMI_SIZE", "2"}}).kind,
            Launcher::Kind::mvapich);
}

TEST(Launcher, RanksOfThisHostAreKnownIfTheStarterNamesThem) {
  EXPECT_EQ(detect({{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}).host_size, 2);
  EXPECT_EQ(detect({{"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "3"}}).host_size, 3);
  EXPECT_EQ(detect({{"PMI_SIZE", "4"}}).host_size, 0);
  std::map<std::string, std::string> step{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}};
  EXPECT_EQ(detect(step).host_size, 0);
  step["SLURM_STEP_NUM_NODES"] = "1";
  EXPECT_EQ(detect(step).host_size, 3);
}

TEST(Launcher, ASlurmAllocationAloneIsNotAStep) {
  EXPECT_EQ(detect({{"SLURM_NTASKS", "8"}, {"SLURM_JOB_ID", "1"}}).kind, Launcher::Kind::none);
  // The batch script: Slurm sets SLURM_PROCID there, newer versions also a step number from the top of the range.
  EXPECT_EQ(detect({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}).kind, Launcher::Kind::none);
  EXPECT_EQ(detect({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "4294967291"}}).kind,
            Launcher::Kind::none);
}

TEST(Launcher, AnSrunStepGivesSizeRankAndWhetherItHasPmi) {
  std::map<std::string, std::string> step{
      {"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_NTASKS", "8"}};
  EXPECT_EQ(detect(step).kind, Launcher::Kind::slurm);
  EXPECT_EQ(detect(step).size, 3);
  EXPECT_EQ(detect(step).rank, 2);
  EXPECT_FALSE(detect(step).connects);
  step["PMIX_RANK"] = "2";
  EXPECT_TRUE(detect(step).connects);
}

TEST(Launcher, MpirunInsideASlurmStepWins) {
  EXPECT_EQ(detect({{"SLURM_STEP_ID", "0"},
                    {"SLURM_PROCID", "0"},
                    {"SLURM_STEP_NUM_TASKS", "1"},
                    {"OMPI_COMM_WORLD_SIZE", "2"},
                    {"OMPI_COMM_WORLD_RANK", "1"}})
                .kind,
            Launcher::Kind::open_mpi);
}

TEST(Launcher, TorchrunIsAStarterWhoseProcessesCannotConnect) {
  const std::map<std::string, std::string> torch = {{"WORLD_SIZE", "4"}, {"RANK", "2"}, {"LOCAL_RANK", "0"}};
  EXPECT_EQ(detect(torch).kind, Launcher::Kind::torch);
  EXPECT_EQ(detect(torch).size, 4);
  EXPECT_EQ(detect(torch).rank, 2);
  EXPECT_FALSE(detect(torch).connects);
  EXPECT_EQ(detect({{"WORLD_SIZE", "1"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}}).kind, Launcher::Kind::none);
  EXPECT_EQ(detect({{"WORLD_SIZE", "4"}, {"RANK", "2"}}).kind, Launcher::Kind::none) << "may be anybody's";
  EXPECT_EQ(detect({{"WORLD_SIZE", "big"}, {"RANK", "2"}, {"LOCAL_RANK", "0"}}).kind, Launcher::Kind::none);
  auto within = torch;
  within["OMPI_COMM_WORLD_SIZE"] = "2";
  EXPECT_EQ(detect(within).kind, Launcher::Kind::open_mpi);
}

TEST(Launcher, ASizeThatIsNotANumberIsRefused) {
  try {
    detect({{"PMI_SIZE", "two"}});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_STREQ(e.what(),
                 "the environment variable PMI_SIZE is \"two\", expected a number; unset it or start with mpirun or "
                 "srun");
  }
}

TEST(Process, WithoutALauncherIsAJobOfOneWithoutMpi) {
  Process process{Launcher{}};
  EXPECT_EQ(process.size(), 1);
  EXPECT_EQ(process.world().backend(), "single");
  EXPECT_EQ(process.run([] { return 75; }), 75);
}

TEST(Process, TorchrunsProcessesAreRefusedBeforeMpiStarts) {
  const Launcher launcher = detect({{"WORLD_SIZE", "4"}, {"RANK", "0"}, {"LOCAL_RANK", "0"}});
  try {
    const Process process{launcher};
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::mismatch);
    const std::string start = "4 processes started by torchrun (WORLD_SIZE=4) would each train alone: torchrun";
    EXPECT_EQ(std::string(e.what()).substr(0, start.size()), start);
  }
}

TEST(Process, AnSrunStepWithoutPmiIsRefusedBeforeMpiStarts) {
  const Launcher launcher = detect({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "3"}});
  try {
    const Process process{launcher};
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::mismatch);
    EXPECT_NE(std::string(e.what()).find("3 processes started by srun (SLURM_STEP_NUM_TASKS=3) would each train alone"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace trireme
