// Which MPI library a process opens: the rule on machines that are described, not on this one.
#include "comm/mpi/library.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "tests/support/expect_error.h"

namespace trireme::mpi {
namespace {

using ::testing::HasSubstr;

struct Case {
  std::set<std::string> files;
  std::vector<std::string> adapters = {"openmpi", "mpich", "abi"};
  std::string starter = "/usr/bin/orted";
  std::map<std::string, std::string> variables;

  Library choose(Launcher::Kind kind, const std::string& wanted = "auto") const {
    const Machine machine{.exists = [this](const std::string& path) { return files.contains(path); },
                          .adapters = adapters,
                          .starter = starter,
                          .folders = {"/ld", "/usr/lib"}};
    return choose_library(
        wanted, {.kind = kind, .name = "x", .variable = "X", .size = 2},
        [this](const char* name) {
          const auto found = variables.find(name);
          return found == variables.end() ? nullptr : found->second.c_str();
        },
        machine);
  }
  Case& with(std::initializer_list<const char*> more) {
    files.insert(more.begin(), more.end());
    return *this;
  }
};

using Kind = Launcher::Kind;

TEST(MpiLibrary, IsThatOfTheStarter) {
  Case both;
  both.with({"/usr/lib/libmpi.so.40", "/usr/lib/libmpich.so.12"});
  EXPECT_EQ(both.choose(Kind::open_mpi).path, "/usr/lib/libmpi.so.40");
  EXPECT_EQ(both.choose(Kind::pmi).path, "/usr/lib/libmpich.so.12");
  EXPECT_EQ(both.choose(Kind::pmix).abi, "openmpi");
  both.variables["SLURM_MPI_TYPE"] = "pmi2";
  EXPECT_EQ(both.choose(Kind::slurm).abi, "mpich");
  both.variables["SLURM_MPI_TYPE"] = "pmix_v4";
  EXPECT_EQ(both.choose(Kind::slurm).abi, "openmpi");
}

TEST(MpiLibrary, BesideTheStarterIsBeforeWhereTheLoaderLooks) {
  Case environment;
  environment.starter = "/venv/bin/hydra_pmi_proxy";
  environment.with({"/usr/lib/libmpich.so.12", "/venv/lib/libmpi.so.12", "/venv/lib/libmpi_abi.so.1"});
  EXPECT_EQ(environment.choose(Kind::pmi).path, "/venv/lib/libmpi.so.12") << "one installation has both of its ABIs";
  environment.adapters = {"openmpi", "abi"};
  EXPECT_EQ(environment.choose(Kind::pmi).path, "/venv/lib/libmpi_abi.so.1");
  EXPECT_EQ(environment.choose(Kind::open_mpi).abi, "");
}

TEST(MpiLibrary, TwoThatFitEquallyAreNamed) {
  Case two;
  two.starter = "/elsewhere/bin/mpiexec.hydra";
  two.with({"/ld/libmpi_abi.so.1", "/usr/lib/libmpi.so.12"});
  EXPECT_ERROR(two.choose(Kind::pmi), ErrorKind::config,
               "two MPI libraries fit the starter of this process equally: /usr/lib/libmpi.so.12 and "
               "/ld/libmpi_abi.so.1; name one with --run.mpi or TRIREME_MPI");
  EXPECT_EQ(two.choose(Kind::pmi, "abi").path, "/ld/libmpi_abi.so.1");
  two.variables["TRIREME_MPI"] = "mpich";
  EXPECT_EQ(two.choose(Kind::pmi).path, "/usr/lib/libmpi.so.12");
  EXPECT_EQ(two.choose(Kind::pmi, "/ld/libmpi_abi.so.1").abi, "abi") << "the option counts before the variable";
}

TEST(MpiLibrary, WhatIsMissingIsNamed) {
  Case none;
  EXPECT_THAT(none.choose(Kind::open_mpi).why,
              HasSubstr("found no libmpi.so.40 for which there is an adapter (here: "));
  EXPECT_ERROR(none.choose(Kind::open_mpi, "openmpi"), ErrorKind::config,
               "run.mpi openmpi: found no libmpi.so.40 in /usr/lib");
  EXPECT_ERROR(none.choose(Kind::open_mpi, "lam"), ErrorKind::config,
               "run.mpi is \"lam\", expected auto, openmpi, mpich, abi or the path of libmpi.so.40 (Open MPI)");
  EXPECT_ERROR(none.choose(Kind::open_mpi, "/x/libmpi.so.40"), ErrorKind::config, "there is no such file");
  none.adapters = {"openmpi"};
  EXPECT_ERROR(none.choose(Kind::pmi, "mpich"), ErrorKind::config,
               "this trireme has no adapter for MPICH and what has its ABI; it has openmpi");
}

}  // namespace
}  // namespace trireme::mpi
