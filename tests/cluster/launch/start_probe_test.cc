#include "cluster/launch/start_probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "cluster/subprocess.h"

namespace trireme::launch {
namespace {

using testing::HasSubstr;

Json start_answer(bool daemon, bool connected, int ranks) {
  return {{"daemon", daemon}, {"connected", connected}, {"ranks", ranks}};
}

TEST(StartLook, NamesTheHostsThatHaveNotCome) {
  const std::vector<std::string> hosts = {"h1", "h2", "h3"};
  const auto said = [&](StarterKind kind, const std::vector<Json>& answers, const std::vector<Problem>& unseen = {}) {
    return testing::PrintToString(group(hosts_not_started(kind, hosts, answers, unseen, "h1")));
  };
  const Json head = start_answer(false, false, 0), come = start_answer(true, true, 0),
             gone = start_answer(false, false, 0), stuck = start_answer(true, false, 0),
             runs = start_answer(true, true, 1);
  for (const StarterKind kind : {StarterKind::open_mpi, StarterKind::hydra}) {
    const std::string mute = said(kind, {head, come, stuck}), absent = said(kind, {head, gone, stuck});
    EXPECT_THAT(mute, HasSubstr("h3: mpirun's daemon is running there but has not connected back"));
    EXPECT_EQ(mute.find("h2"), std::string::npos);
    EXPECT_THAT(absent, HasSubstr("h2: mpirun's daemon is not running there"));
    EXPECT_THAT(said(kind, {head, come, Json()}, {{"h3", "it does not answer", ""}}),
                HasSubstr("h3: it does not answer"));
    EXPECT_THAT(said(kind, {head, come, come}), HasSubstr("its daemons are connected but no rank is running"));
    EXPECT_EQ(said(kind, {head, runs, stuck}), "{}") << "ranks run";
  }
  EXPECT_THAT(said(StarterKind::srun, {runs, runs, gone}), HasSubstr("h3: Slurm has started no rank there"));
  EXPECT_EQ(said(StarterKind::srun, {runs, runs, runs}), "{}");
}

TEST(StartLook, SeesADaemonByItsEnvironment) {
  EXPECT_EQ(probe_start("TRIREME_DAEMON=nobody/h3", "TRIREME_LAUNCH_ID=nobody"), start_answer(false, false, 0));
  std::thread daemon([] {
    run_process({.arguments = {"sleep", "10"},
                 .timeout = std::chrono::seconds(2),
                 .input = "",
                 .variables = {{"TRIREME_DAEMON", "test-5/h3"}, {"TRIREME_LAUNCH_ID", "test-5"}},
                 .user = ""});
  });
  Json seen;
  for (int i = 0; i < 100 && (seen.is_null() || seen.at("ranks") == 0); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    seen = probe_start("TRIREME_DAEMON=test-5/h3", "TRIREME_LAUNCH_ID=test-5");
  }
  daemon.join();
  EXPECT_EQ(seen, start_answer(true, false, 1));
}

TEST(StarterProbe, AForeignDaemonIsDistinguishedFromAnotherVersion) {
  const Starter starter{StarterKind::open_mpi, "/usr/bin/mpirun", "mpirun (Open MPI) 4.1.4", ""};
  const auto answer = [](const char* daemon, const char* version, const char* print, bool answers) {
    return Json{{"daemon", daemon}, {"version", version}, {"print", print}, {"answers", answers}};
  };
  const Json own = answer("/usr/bin/orted", "mpirun (Open MPI) 4.1.4", "9 aa", true);
  const auto said = [&](const Json& theirs) {
    return testing::PrintToString(group(judge_starters(starter, {"h2"}, {theirs}, own)));
  };
  EXPECT_EQ(said(own), "{}");
  EXPECT_EQ(said(answer("/usr/bin/orted", "mpirun (Open MPI) 4.1.4", "9 bb", true)), "{}") << "another build of it";
  EXPECT_THAT(said(answer("", "", "", false)), HasSubstr("orted is missing there, which /usr/bin/mpirun needs"));
  EXPECT_THAT(said(answer("/usr/bin/orted", "mpirun (Open MPI) 3.1.0", "9 bb", true)),
              HasSubstr("its /usr/bin/mpirun is \\\"mpirun (Open MPI) 3.1.0"));
  EXPECT_THAT(said(answer("/opt/conda/bin/orted", "mpirun (Open MPI) 4.0.1", "9 bb", true)),
              HasSubstr("its mpirun beside /opt/conda/bin/orted is"));
  EXPECT_THAT(
      said(answer("/opt/conda/bin/orted", "", "9 bb", true)),
      HasSubstr("its /opt/conda/bin/orted differs from this host's, and no mpirun beside it shows its version"));
  EXPECT_THAT(said(answer("/usr/bin/orted", "mpirun (Open MPI) 4.1.4", "9 bb", false)),
              HasSubstr("its /usr/bin/orted is another program: its --help does not mention orted"));
}

}  // namespace
}  // namespace trireme::launch
