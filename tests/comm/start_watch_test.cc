#include "comm/start_watch.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "comm/launcher.h"
#include "comm/rank_record.h"

namespace trireme {
namespace {

TEST(StartWatch, OnOneHostNamesTheRanksThatHaveNotCome) {
  EXPECT_EQ(describe({.ranks = 2, .host_ranks = 2, .here = {0}}, 5),
            "1 of 2 ranks have reached MPI_Init in 5 s; rank 1 has not: it has ended or runs another program");
  EXPECT_EQ(describe({.ranks = 4, .host_ranks = 4, .here = {1, 3}}, 120),
            "2 of 4 ranks have reached MPI_Init in 120 s; ranks 0, 2 have not: they have ended or run another program");
  EXPECT_EQ(describe({.ranks = 2, .host_ranks = 2, .here = {0, 1}}, 5),
            "all 2 ranks have reached MPI_Init but have not connected in 5 s");
  EXPECT_NE(describe({.ranks = 40, .host_ranks = 40, .here = {0}}, 5)
                .find("ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "
                      "12, 13, 14, 15, 16 and 23 more have not"),
            std::string::npos);
}

TEST(StartWatch, OfSeveralHostsFindsThisOne) {
  EXPECT_EQ(
      describe({.ranks = 8, .host_ranks = 4, .here = {4, 5, 6}}, 5),
      "waiting in MPI_Init for 5 s: 3 of this host's 4 ranks have reached it, the others have ended or run another "
      "program");
  EXPECT_EQ(
      describe({.ranks = 8, .host_ranks = 2, .here = {2, 3}}, 5),
      "waiting in MPI_Init for 5 s: 2 of this host's 2 ranks have reached it, so ranks of another host have not, or a "
      "connection to them fails");
  EXPECT_EQ(describe({.ranks = 8, .host_ranks = 0, .here = {}}, 5), "waiting in MPI_Init for 5 s");
}

/// Output and exit code of a rank that starts alone, and leaves with 0 unless its watch ends it before.
std::pair<std::string, int> start_alone(const Launcher& launcher, const char* job,
                                        std::chrono::milliseconds stays = std::chrono::seconds(60)) {
  int both[2];
  if (pipe(both) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(both[1], STDERR_FILENO);
    setenv("PMIX_NAMESPACE", job, 1);
    setenv(kLaunchIdVariable, "7", 1);
    const StartWatch watch(launcher, {.seconds = 0.2, .option = "--run.start-timeout"});
    std::this_thread::sleep_for(stays);
    _exit(0);
  }
  close(both[1]);
  std::string text;
  char part[4096];
  for (ssize_t n; (n = read(both[0], part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(n));
  close(both[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {text, WEXITSTATUS(status)};
}

TEST(StartWatch, EndsTheWaitAndCountsTheRanksOfItsJobOnly) {
  const std::string job = "test-" + std::to_string(getpid());
  Launcher launcher{Launcher::Kind::open_mpi, "mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", 3, 2, 3};
  setenv("PMIX_NAMESPACE", job.c_str(), 1);
  const StartWatch first(launcher, {});  // rank 2
  launcher.rank = 0;
  const auto [text, code] = start_alone(launcher, job.c_str());
  EXPECT_EQ(code, 76);
  EXPECT_NE(text.find(to_line({.kind = RankRecord::Kind::arrived}) + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("error: 2 of 3 ranks have reached MPI_Init in 0 s; rank 1 has not: it has ended or runs another "
                      "program; start the same command on all ranks, on hosts that reach each other; if they are "
                      "slow, raise --run.start-timeout; exiting with code 76"),
            std::string::npos)
      << text;
  EXPECT_NE(start_alone(launcher, (job + "-other").c_str()).first.find("error: 1 of 3 ranks"), std::string::npos);
  unsetenv("PMIX_NAMESPACE");
}

TEST(StartWatch, OneProcessDoesNotWait) {
  Launcher launcher{Launcher::Kind::open_mpi, "mpirun of Open MPI", "OMPI_COMM_WORLD_SIZE", 1, 0, 1};
  EXPECT_EQ(start_alone(launcher, "alone", std::chrono::milliseconds(600)), std::pair(std::string(), 0));
}

}  // namespace
}  // namespace trireme
