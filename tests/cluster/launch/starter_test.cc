#include "cluster/launch/starter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "cluster/launch/output.h"
#include "cluster/launch/preflight.h"
#include "cluster/launch/remote_shell.h"
#include "cluster/launch/start_probe.h"
#include "cluster/launch/supervise.h"
#include "cluster/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace trireme::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class F>
std::string reason(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

StartRequest request_for(std::vector<Placement> placement) {
  StartRequest request;
  request.placement = std::move(placement);
  request.command = {"/opt/trireme", "train", "a b.yaml"};
  request.variables = {{"A", "1 2"}};
  request.hostfile = "/tmp/x/hosts";
  request.agent = {"/opt/trireme", "remote-shell", "--"};
  request.agent_script = "/tmp/x/agent";
  request.network = "10.0.0.0/24";
  request.tcp_only = true;
  return request;
}

TEST(StartCommand, OpenMpiGetsHostfileAgentNetworkAndVariables) {
  const StartCommand command =
      start_command({StarterKind::open_mpi, "/usr/bin/mpirun.openmpi", "", ""}, request_for({{"n1", 2}, {"n2", 1}}));
  EXPECT_EQ(
      shell_join(command.words),
      "mpirun.openmpi --hostfile /tmp/x/hosts -np 3 --map-by slot --bind-to none --tag-output --mca plm_rsh_agent "
      "'/opt/trireme remote-shell --' --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl self,vader,tcp --mca "
      "btl_tcp_if_include 10.0.0.0/24 --mca oob_tcp_if_include 10.0.0.0/24 -x 'A=1 2' /opt/trireme train 'a b.yaml'");
  EXPECT_EQ(command.hostfile_text, "n1 slots=2\nn2 slots=1\n");
}

TEST(StartCommand, OpenMpiGetsTheOptionForAnIpv6Network) {
  StartRequest request = request_for({{"n1", 1}, {"n2", 1}});
  request.ipv6 = true;
  request.network = "eth0";
  EXPECT_THAT(
      shell_join(start_command({StarterKind::open_mpi, "/usr/bin/mpirun", "", ""}, request).words),
      HasSubstr("--mca oob_tcp_disable_ipv6_family 0 --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"));
}

TEST(StartCommand, OpenMpi5GetsTheNamesOfItsOwnRuntime) {
  const Starter starter{StarterKind::prrte, "/usr/bin/mpirun.openmpi", "mpirun.openmpi (Open MPI) 5.0.7", ""};
  StartRequest request = request_for({{"n1", 2}, {"n2", 1}});
  const StartCommand command = start_command(starter, request);
  EXPECT_EQ(
      shell_join(command.words),
      "mpirun.openmpi --hostfile /tmp/x/hosts -np 3 --map-by slot --bind-to none --output tag --prtemca plm_ssh_agent "
      "'/opt/trireme remote-shell --' --prtemca plm_ssh_no_tree_spawn 1 --mca pml ob1 --mca btl self,vader,tcp --mca "
      "btl_tcp_if_include 10.0.0.0/24 --prtemca prte_if_include 10.0.0.0/24 -x 'A=1 2' /opt/trireme train 'a b.yaml'");
  EXPECT_EQ(command.hostfile_text, "n1 slots=2\nn2 slots=1\n");
  request.ipv6 = true;
  EXPECT_THAT(start_command(starter, request).words, testing::Not(testing::Contains("oob_tcp_disable_ipv6_family")));
  StartRequest here = request_for({{"H1", 2}, {"h2", 1}});
  here.this_host = "H1";
  EXPECT_EQ(start_command(starter, here).hostfile_text, "localhost slots=2\nh2 slots=1\n");
  EXPECT_EQ(daemon_of(starter), "prted");
  EXPECT_EQ(daemon_of({StarterKind::open_mpi, "/usr/bin/mpirun", "", ""}), "orted");
}

TEST(StartCommand, APrivateInstallationIsCalledByItsPath) {
  const StartCommand command =
      start_command({StarterKind::open_mpi, "/opt/openmpi/bin/mpirun", "", ""}, request_for({{"n1", 1}}));
  EXPECT_EQ(command.words[0], "/opt/openmpi/bin/mpirun");
  StartRequest request = request_for({{"n1", 1}});
  request.agent[0] = "/opt/my tools/trireme";
  EXPECT_THAT(reason([&] {
                start_command({StarterKind::open_mpi, "/usr/bin/mpirun", "", ""}, request);
              }),
              HasSubstr("a folder without blanks"));
}

TEST(StartCommand, HydraGetsItsOwnSpellings) {
  StartRequest request = request_for({{"n1", 2}, {"n2", 1}});
  request.network = "eth0";
  const StartCommand command = start_command({StarterKind::hydra, "/usr/bin/mpiexec.hydra", "", ""}, request);
  EXPECT_EQ(shell_join(command.words),
            "/usr/bin/mpiexec.hydra -f /tmp/x/hosts -n 3 -launcher ssh -launcher-exec /tmp/x/agent -prepend-pattern "
            "'[%r]' -bind-to none -iface eth0 -genv UCX_TLS tcp,self,sm -genv A '1 2' /opt/trireme train 'a b.yaml'");
  EXPECT_EQ(command.hostfile_text, "n1:2\nn2:1\n");
}

TEST(StartCommand, IntelMpiGetsCountsBindingAndProviderInItsOwnWay) {
  StartRequest request = request_for({{"n1", 2}, {"n2", 1}});
  request.network = "eth0";
  const Starter intel{StarterKind::hydra, "/opt/intel/mpirun", "Intel(R) MPI Library for Linux* OS, Version 2021.9",
                      ""};
  EXPECT_EQ(shell_join(start_command(intel, request).words),
            "/opt/intel/mpirun -machinefile /tmp/x/hosts -n 3 -launcher ssh -launcher-exec /tmp/x/agent "
            "-prepend-pattern '[%r]' -bind-to none -genv I_MPI_PIN 0 -iface eth0 -genv FI_TCP_IFACE eth0 -genv "
            "FI_PROVIDER tcp -genv A '1 2' /opt/trireme train 'a b.yaml'");
  request.inherit_binding = true;
  EXPECT_EQ(shell_join(start_command(intel, request).words).find("PIN"), std::string::npos);
}

TEST(StartCommand, SrunGetsNodesTasksAndItsPlugin) {
  const StartCommand even =
      start_command({StarterKind::srun, "/usr/bin/srun", "pmix", ""}, request_for({{"n1", 2}, {"n2", 2}}));
  EXPECT_EQ(shell_join(even.words),
            "/usr/bin/srun --mpi=pmix --label --kill-on-bad-exit=1 --wait=30 --export=ALL --nodes=2 --ntasks=4 "
            "'--nodelist=n[1-2]' --cpu-bind=none --ntasks-per-node=2 /opt/trireme train 'a b.yaml'");
  EXPECT_THAT(even.environment, ElementsAre(testing::Pair("A", "1 2"), testing::Pair("OMPI_MCA_pml", "ob1"),
                                            testing::Pair("OMPI_MCA_btl", "self,vader,tcp"),
                                            testing::Pair("OMPI_MCA_btl_tcp_if_include", "10.0.0.0/24")));
  const StartCommand mpich = start_command({StarterKind::srun, "/usr/bin/srun", "pmi2", ""}, request_for({{"n1", 1}}));
  EXPECT_THAT(mpich.environment, ElementsAre(testing::Pair("A", "1 2"), testing::Pair("UCX_TLS", "tcp,self,sm")));
  const StartCommand uneven =
      start_command({StarterKind::srun, "/usr/bin/srun", "pmix", ""}, request_for({{"n1", 2}, {"n2", 1}}));
  EXPECT_EQ(uneven.hostfile_text, "n1\nn1\nn2\n");
  EXPECT_THAT(uneven.words, testing::Contains("--distribution=arbitrary"));
}

TEST(Starter, FamiliesAreRecognizedByTheirVersionText) {
  EXPECT_EQ(mpirun_family("mpirun (Open MPI) 4.1.4\n", "x"), StarterKind::open_mpi);
  EXPECT_EQ(mpirun_family("mpirun.openmpi (OpenRTE) 4.1.4\n", "x"), StarterKind::open_mpi);
  EXPECT_EQ(mpirun_family("mpirun (Open MPI) 5.0.7\n\nReport bugs to https://www.open-mpi.org\n", "x"),
            StarterKind::prrte);
  EXPECT_EQ(mpirun_family("mpirun (Open MPI) 10.0.0rc1\n", "x"), StarterKind::prrte);
  EXPECT_EQ(mpirun_family("mpirun (Open MPI)", "x"), StarterKind::open_mpi);
  EXPECT_EQ(mpirun_family("HYDRA build details:\n", "x"), StarterKind::hydra);
  EXPECT_EQ(mpirun_family("Intel(R) MPI Library for Linux* OS, Version 2021.9\n", "x"), StarterKind::hydra);
  EXPECT_THAT(reason([] { mpirun_family("prun 1.0\n", "/x/mpirun"); }), HasSubstr("/x/mpirun is neither Open MPI's"));
}

TEST(Starter, SaysWhatIsMissing) {
  EXPECT_THAT(reason([] { find_starter({.wanted = "auto", .program = "", .mpi = "off"}); }),
              HasSubstr("found no MPI library on this host"));
  EXPECT_THAT(reason([] { find_starter({.wanted = "pdsh", .program = "", .mpi = "openmpi"}); }),
              HasSubstr("expected auto, openmpi, hydra or srun"));
  EXPECT_THAT(reason([] { find_starter({.wanted = "auto", .program = "/no/mpirun", .mpi = "openmpi"}); }),
              HasSubstr("--mpirun /no/mpirun: found no such program"));
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  EXPECT_THAT(reason([] { find_starter({.wanted = "auto", .program = "", .mpi = "openmpi"}); }),
              HasSubstr("no mpirun of Open MPI on this host; install it (Debian: apt install openmpi-bin)"));
  setenv("PATH", path.c_str(), 1);
}

TEST(Output, TagsOfEveryStarterBecomeHostAndRank) {
  const auto tag = [](StarterKind kind, std::string_view line) {
    const TaggedLine tagged = read_tag(kind, line);
    return std::to_string(tagged.rank) + "|" + std::string(tagged.text);
  };
  EXPECT_EQ(tag(StarterKind::open_mpi, "[1,12]<stderr>:a: b"), "12|a: b");
  EXPECT_EQ(tag(StarterKind::open_mpi, "[node1:123] ORTE_ERROR"), "-1|[node1:123] ORTE_ERROR");
  EXPECT_EQ(tag(StarterKind::open_mpi, "[1,2]<stdout>: a"), "2| a");
  EXPECT_EQ(tag(StarterKind::prrte, "[1,2]<stdout>: a"), "2|a");
  EXPECT_EQ(tag(StarterKind::prrte, std::string_view("[1,2]<stderr>: \0error: a", 24)), "2|error: a");
  EXPECT_EQ(tag(StarterKind::prrte, "[1,2]<stdout>:  a"), "2| a");
  EXPECT_EQ(tag(StarterKind::prrte, "[1,2]<stdout>: "), "2|");
  EXPECT_EQ(tag(StarterKind::hydra, "[3]text"), "3|text");
  EXPECT_EQ(tag(StarterKind::hydra, "[mpiexec@n1] match"), "-1|[mpiexec@n1] match");
  EXPECT_EQ(tag(StarterKind::srun, " 7: text"), "7|text");
  EXPECT_EQ(tag(StarterKind::srun, "srun: error: n2"), "-1|srun: error: n2");
}

TEST(Output, LinesAreWhole) {
  const std::vector<Placement> placement = {{"n1", 1}, {"n2", 2}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::hydra, placement, no_logs);
  EXPECT_EQ(prefixer.take("[0]on"), "");
  EXPECT_EQ(prefixer.take("e\n[2]error: x\n[1]error: y\nwo"), "n1[0] one\nn2[2] error: x\nn2[1] error: y\n");
  EXPECT_EQ(prefixer.flush(), "mpirun: wo\n");
}

TEST(Output, PartsOfLinesThatOpenMpiMixesAreEachRanksOwn) {
  const std::vector<Placement> placement = {{"n1", 1}, {"n2", 2}};
  TemporaryFolder folder;
  RankLogs logs(folder / "logs");
  OutputPrefixer prefixer(StarterKind::open_mpi, placement, logs);
  EXPECT_EQ(prefixer.take("[1,0]<stdout>:a[1,2]<stdout>:b\n[1,0]<stdout>:c"), "n2[2] b\n");
  EXPECT_EQ(prefixer.take("[1,1]<stdout>:d\n[1,0]<stdout>:e\n"), "n2[1] d\nn1[0] ace\n");
  EXPECT_EQ(prefixer.take("[1,1]<stdout>:text of [1,9]<stdout>: and [1,x]<stdout>:\n"),
            "n2[1] text of [1,9]<stdout>: and [1,x]<stdout>:\n")
      << "there is no rank 9";
  EXPECT_EQ(prefixer.take("[1,2]<stdout>:no end[1,0]<stdout>:none"), "");
  EXPECT_EQ(prefixer.flush(), "n1[0] none\nn2[2] no end\n");
  EXPECT_EQ(read_text(folder / "logs/rank-0000.log"), "ace\nnone\n");
}

TEST(Output, TheBlankAfterABoxOfOpenMpi5IsDropped) {
  const std::vector<Placement> placement = {{"n1", 1}, {"n2", 2}};
  RankLogs no_logs("");
  const std::string edge(74, '-');
  OutputPrefixer prefixer(StarterKind::prrte, placement, no_logs);
  EXPECT_EQ(prefixer.take(edge + "\nWARNING: x\n" + edge + "\n [1,1]<stdout>: a\n"),
            "mpirun: " + edge + "\nmpirun: WARNING: x\nmpirun: " + edge + "\nn2[1] a\n");
  EXPECT_EQ(prefixer.take(edge + "\nprterun detected that one or more processes exited with non-zero status\n" + edge +
                          "\n " + edge + "\nsecond\n" + edge + "\n "),
            "mpirun: " + edge + "\nmpirun: second\nmpirun: " + edge + "\n");
  EXPECT_THAT(prefixer.verdict(), HasSubstr("prterun detected"));
  EXPECT_EQ(prefixer.flush(), "");
}

TEST(Output, ALongLineOfOpenMpiIsOneLine) {
  const std::vector<Placement> placement = {{"n1", 2}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
  const std::string part(30000, 'x');
  EXPECT_EQ(prefixer.take("[1,0]<stdout>:" + part + "[1,0]<std"), "");
  EXPECT_EQ(prefixer.take("out>:" + part + "\n"), "n1[0] " + part + part + "\n");
  // More than is held back at once, cut in the middle of a tag and of a part.
  std::string out = prefixer.take("[1,1]<stdout>:" + part + "[1,1]<stdout>:" + part + part + "[1,");
  out += prefixer.take("0]<stdout>:y" + std::string(70000, 'z'));
  out += prefixer.take("zz\n[1,1]<stdout>:end\n");
  EXPECT_EQ(out, "n1[1] " + part + part + part + "\nn1[0] y" + std::string(70000, 'z') + "\nn1[0] zz\nn1[1] end\n");
}

TEST(Output, AFailedStartIsRecognized) {
  const std::vector<Placement> placement = {{"n1", 1}};
  RankLogs no_logs("");
  const std::string edge(74, '-');
  for (const char* words : {"mpirun was unable to launch the specified application as it could not access",
                            "mpirun was unable to find the specified executable file, and therefore"}) {
    OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
    EXPECT_FALSE(prefixer.not_started());
    EXPECT_THAT(prefixer.take(edge + "\n" + words + "\n" + edge + "\n"), HasSubstr(words));
    EXPECT_TRUE(prefixer.not_started());
  }
  OutputPrefixer hydra(StarterKind::hydra, placement, no_logs);
  hydra.take("[0]execvp error on file of my own\n");
  EXPECT_FALSE(hydra.not_started());
  hydra.take(
      "[0] [proxy:0:0@n1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file x (No such file)\n");
  EXPECT_TRUE(hydra.not_started());
}

TEST(Output, MpirunsBoxAboutACodeIsHeldBackAndOtherBoxesAreNot) {
  const std::vector<Placement> placement = {{"n1", 1}};
  RankLogs no_logs("");
  OutputPrefixer prefixer(StarterKind::open_mpi, placement, no_logs);
  const std::string edge(74, '-');
  EXPECT_EQ(
      prefixer.take(edge + "\nmpirun detected that one or more processes exited with non-zero status\n" + edge + "\n"),
      "");
  EXPECT_THAT(prefixer.verdict(), HasSubstr("mpirun: mpirun detected that one"));
  const std::string warning = prefixer.take(edge + "\nWARNING: no device\n" + edge + "\nplain\n");
  EXPECT_EQ(warning, "mpirun: " + edge + "\nmpirun: WARNING: no device\nmpirun: " + edge + "\nmpirun: plain\n");
  EXPECT_EQ(prefixer.take(edge + "\nopen box\n"), "");
  EXPECT_EQ(prefixer.flush(), "mpirun: " + edge + "\nmpirun: open box\n");
}

TEST(Agent, ReasonsForNoAnswerAreDistinguished) {
  const auto why = [](int code, const char* said) { return explain_agent_failure("/opt/trireme", code, said).reason; };
  EXPECT_EQ(
      why(127, "/opt/trireme: error while loading shared libraries: libx.so.1: cannot open shared object file\n"),
      "/opt/trireme does not start there: /opt/trireme: error while loading shared libraries: libx.so.1: cannot open "
      "shared object file");
  EXPECT_EQ(why(126, "bash: line 1: /opt/trireme: Permission denied\n"), "/opt/trireme is not executable there");
  EXPECT_EQ(why(126, "bash: /opt/trireme: cannot execute binary file: Exec format error\n"),
            "/opt/trireme does not start there: bash: /opt/trireme: cannot execute binary file: Exec format error");
  EXPECT_EQ(why(127, "bash: /opt/trireme: No such file or directory\n"), "/opt/trireme does not exist there");
  EXPECT_EQ(why(2, "unknown command node-agent\n"),
            "its /opt/trireme is not an agent of this version: it ended with code 2: unknown command node-agent");
}

TEST(Problems, EqualOnesOfSeveralHostsAreOneLine) {
  EXPECT_THAT(group({{"n1", "x", "f"}, {"n2", "y", ""}, {"n3", "x", "f"}, {"n2", "x", "f"}}),
              ElementsAre("n[1,3,2] (3 hosts): x; f", "n2: y"));
}

TEST(Restart, OnlyLostPeersAndDeathsBySignal) {
  for (int code : {76, 137, 139, 134}) EXPECT_TRUE(may_restart(code, {})) << code;
  for (int code : {0, 1, 2, 75}) EXPECT_FALSE(may_restart(code, {})) << code;
}

TEST(Restart, NotAfterARankNamedItsErrorAndAborted) {
  AttemptEnd end;
  end.first_error = "cudaMemcpyAsync failed: an illegal memory access was encountered";
  EXPECT_FALSE(may_restart(134, end)) << "it would do so again";
  EXPECT_TRUE(may_restart(137, end)) << "somebody else killed it";
  end.lost = RankRecord{.kind = RankRecord::Kind::lost, .rank = 1};
  EXPECT_TRUE(may_restart(134, end)) << "it aborted because another rank was lost";
}

TEST(Ssh, MessagesBecomeReasonsAndFixes) {
  const auto what = [](const char* text) { return explain_ssh_failure("n2", text).reason; };
  EXPECT_EQ(what("Host key verification failed.\r\n"), "its host key is unknown");
  EXPECT_EQ(what("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n"),
            "its host key differs from the one in known_hosts");
  EXPECT_EQ(what("root@n2: Permission denied (publickey,password).\n"), "it asks for a password or refuses our key");
  EXPECT_EQ(what("ssh: connect to host n2 port 22: Connection refused\n"), "nothing listens on its ssh port");
  EXPECT_EQ(what("ssh: connect to host n2 port 22: Connection timed out\n"), "it does not answer");
  EXPECT_EQ(what("ssh: connect to host n2 port 22: No route to host\n"), "there is no route to it");
  EXPECT_EQ(what("strange\nnews\n"), "ssh says: news");
  EXPECT_EQ(explain_ssh_failure("n2", "Permission denied").fix, "install a key: `ssh-copy-id n2`");
  const auto fault = [](const char* text) { return explain_ssh_failure("n2", text).fault; };
  EXPECT_EQ(fault("Host key verification failed."), SshFault::host_key);
  EXPECT_EQ(fault("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @"), SshFault::host_key);
  EXPECT_EQ(fault("me@n2: Permission denied (publickey)."), SshFault::key_refused);
  EXPECT_EQ(fault("Received disconnect: Too many authentication failures"), SshFault::key_refused);
  EXPECT_EQ(fault("ssh: connect to host n2 port 22: Connection refused"), SshFault::other);
  EXPECT_EQ(fault("something else"), SshFault::other);
  EXPECT_THAT(reason([] { ssh_command({.host_key = "no"}); }), HasSubstr("host keys are always checked"));
}

NodeFacts good_node(const std::string& name, const std::string& address) {
  NodeFacts facts;
  facts.host = name;
  facts.executable = "10 aa";
  facts.cpus = 4;
  facts.memory = int64_t{8} << 30;
  facts.disk_free = int64_t{8} << 30;
  facts.shm_free = int64_t{1} << 30;
  facts.interfaces = {{"docker0", "172.17.0.1", "172.17.0.0/16", 0}, {"eth0", address, "10.0.0.0/24", 1000}};
  return facts;
}

class Judge : public testing::Test {
 protected:
  Judge() : facts({good_node("n1", "10.0.0.1"), good_node("n2", "10.0.0.2"), good_node("n3", "10.0.0.3")}) {
    request.placement = {{"n1", 2}, {"n2", 2}, {"n3", 2}};
  }
  std::string problems() {
    PreflightResult result;
    judge_facts(request, facts, result);
    notes = result.notes;
    std::string text;
    for (const Problem& problem : result.problems) text += to_text(problem) + "\n";
    return text;
  }
  PreflightRequest request;
  std::vector<NodeFacts> facts;
  std::vector<std::string> notes;
};

TEST_F(Judge, LikeHostsPass) { EXPECT_EQ(problems(), ""); }

TEST_F(Judge, ARunThatDoesNotFitNamesALayoutThatDoes) {
  RankMemory needed{uint64_t{3} << 30, ""};
  request.rank_memory = [&](int ranks, int hosts, uint64_t limit, bool) {
    EXPECT_EQ(ranks, 6);
    EXPECT_EQ(hosts, 3);
    EXPECT_EQ(limit, uint64_t{2} << 30) << "of the host with the least memory";
    return std::optional(needed);
  };
  facts[1].memory = int64_t{4} << 30;
  needed.fits = "--mesh.tensor 2, 1.50 GB per rank";
  EXPECT_EQ(problems(),
            "n2: the run does not fit: 2 ranks with 3.22 GB each need 6.44 GB, but 4.29 GB of memory are free; "
            "this fits: --mesh.tensor 2, 1.50 GB per rank\n");
  EXPECT_THAT(notes, testing::Contains("3.22 GB planned for each rank, 2.15 GB are free"));
  needed.fits.clear();
  EXPECT_THAT(problems(), HasSubstr("; no layout of these hosts fits: use more hosts or a smaller model"));
  needed.bytes = uint64_t{2} << 30;
  EXPECT_EQ(problems(), "");
  request.rank_memory = [](int, int, uint64_t, bool) { return std::optional<RankMemory>(); };
  EXPECT_EQ(problems(), "");
  request.placement[0].processes = 1;
  request.rank_memory = [](int, int, uint64_t, bool) -> std::optional<RankMemory> {
    ADD_FAILURE() << "hosts with different numbers of ranks are not judged";
    return {};
  };
  EXPECT_EQ(problems(), "");
}

TEST_F(Judge, AllProblemsAreNamedTogether) {
  request.files = {"/data/train.bin"};
  for (NodeFacts& fact : facts) fact.files = {{"/data/train.bin", "5 bb"}};
  facts[1].files[0].second = "5 cc";
  facts[2].executable = "10 dd";
  facts[0].cpu_quota = 1.5;
  facts[1].disk_free = 1000;
  const std::string text = problems();
  EXPECT_THAT(text,
              HasSubstr("n3: the trireme binary differs: 10 dd there, 10 aa on 2 other hosts; copy the same build"));
  EXPECT_THAT(text, HasSubstr("n2: /data/train.bin differs: 5 cc there, 5 bb on 2 other hosts; copy it"));
  EXPECT_THAT(text, HasSubstr("n1: 2 processes for 1.5 processors (its cgroup's quota); lower --ppn"));
  EXPECT_THAT(text, HasSubstr("n2: only 0.00 GiB are free for the run folder"));
}

TEST_F(Judge, OneMachineWithTwoNamesIsDistinguishedFromTwoWithOne) {
  facts[1].host = "n1";
  EXPECT_EQ(
      problems(),
      "n2: its name is n1, the same as that of n1, which is another machine; give each a different name: `hostnamectl "
      "set-hostname NAME`\n");
  facts[1] = facts[0];
  EXPECT_EQ(problems(),
            "n2: it is the same machine as n1 (both have the name n1); list each machine once, with the sum of its "
            "slots\n");
}

TEST_F(Judge, NamesAreLookedUpInEachHostsCache) {
  facts[1].unfetched = {"gpt2", "glue/mrpc"};
  facts[1].hub_cache = "/root/.cache/huggingface/hub";
  EXPECT_EQ(problems(), "");
  EXPECT_THAT(
      notes, testing::Contains("n2: gpt2 is not in its cache /root/.cache/huggingface/hub; its first rank fetches it"));
  facts[1].hub_offline = true;
  EXPECT_THAT(problems(),
              HasSubstr("n2: gpt2 is not in its cache /root/.cache/huggingface/hub, and HF_HUB_OFFLINE is set; run "
                        "`trireme fetch gpt2` on a host with a connection and copy the folder there"));
  EXPECT_THAT(problems(), HasSubstr("`trireme fetch glue/mrpc --dataset` on a host with a connection"));
}

TEST_F(Judge, ContainerMemoryIsTheTighterBound) {
  facts[0].memory_limit = int64_t{1} << 20;
  EXPECT_THAT(problems(), HasSubstr("n1: only 0.00 GiB of memory are free"));
}

TEST_F(Judge, SharedMemoryLoopbackNamesFeaturesAndInfinibandAreNotes) {
  facts[0].shm_free = int64_t{1} << 20;
  facts[1].own_name_address = "127.0.1.1";
  facts[2].features = {"avx2"};
  facts[2].infiniband_ports = 1;
  EXPECT_EQ(problems(), "");
  EXPECT_THAT(notes, testing::Contains(HasSubstr("n1: /dev/shm has only 1 MiB free for 2 processes")));
  EXPECT_THAT(notes, testing::Contains(HasSubstr("n2: its own name resolves to 127.0.1.1")));
  EXPECT_THAT(notes, testing::Contains(HasSubstr("n3: its CPU has avx2; each host uses its own kernels")));
  EXPECT_THAT(notes, testing::Contains(HasSubstr("n1: no active InfiniBand port; the whole job uses TCP")));
}

TEST_F(Judge, TheNetworkIsCommonFastAndNotAContainersBridge) {
  PreflightResult result;
  EXPECT_THAT(pick_network("", facts, result), ElementsAre(1, 1, 1));
  EXPECT_EQ(result.network, "10.0.0.0/24");
  EXPECT_EQ(result.interface, "eth0");
  for (NodeFacts& fact : facts)
    fact.interfaces.push_back({"ib0", "10.1.0." + fact.host.substr(1), "10.1.0.0/24", 100000});
  facts[2].interfaces.back().name = "ib1";
  result = {};
  EXPECT_THAT(pick_network("", facts, result), ElementsAre(2, 2, 2));
  EXPECT_EQ(result.network, "10.1.0.0/24");
  EXPECT_EQ(result.interface, "") << "it has two names";
  EXPECT_THAT(pick_network("eth0", facts, result), ElementsAre(1, 1, 1));
  EXPECT_THAT(pick_network("10.1.0.0/24", facts, result), ElementsAre(2, 2, 2));
  EXPECT_TRUE(result.problems.empty());
  EXPECT_THAT(pick_network("eth7", facts, result), ElementsAre());
  EXPECT_THAT(to_text(result.problems[0]), HasSubstr("eth7 is not on every host"));
}

TEST(MemoryKills, ReportTheGroupBeforeTheHost) {
  const MemoryKills before{1, 5, int64_t{3} << 29}, group{2, 6, int64_t{3} << 29}, host{1, 7, 0};
  EXPECT_EQ(describe_memory_kills(before, before), "");
  EXPECT_EQ(describe_memory_kills(before, group),
            "out of memory: the kernel killed 1 process of a control group with a limit of 1.50 GiB; lower batch.micro "
            "or the ranks on this host, or raise that limit");
  EXPECT_EQ(
      describe_memory_kills(before, host),
      "out of memory: the kernel killed 2 processes on this host during the run; lower batch.micro or the ranks on "
      "this host");
}

TEST(Facts, SurviveJson) {
  const NodeFacts facts = gather_facts("/tmp", {"/proc/self/exe", "/nonexistent"});
  const NodeFacts back = facts_from_json(to_json(facts));
  EXPECT_EQ(to_json(back), to_json(facts));
  EXPECT_GT(back.cpus, 0);
  EXPECT_GT(back.memory, 0);
  EXPECT_EQ(back.files[0].second, back.executable);
  EXPECT_THAT(back.files[1].second, HasSubstr("/nonexistent"));
}

TEST(StartCommand, OpenMpi4KeepsTheDomainsOfNamesAnd5GetsNamesWithoutDots) {
  const Starter four{StarterKind::open_mpi, "/usr/bin/mpirun", "mpirun (Open MPI) 4.1.4", ""};
  const Starter five{StarterKind::prrte, "/usr/bin/mpirun", "mpirun (Open MPI) 5.0.7", ""};
  const auto words = [](const Starter& starter, std::vector<Placement> placement) {
    return shell_join(start_command(starter, request_for(std::move(placement))).words);
  };
  for (const auto& hosts : {std::vector<Placement>{{"mpi-worker.1.example.net", 2}, {"mpi-worker.2.example.net", 2}},
                            std::vector<Placement>{{"n1", 1}, {"ann@n1.example.net", 1}},
                            std::vector<Placement>{{"a.example.net", 1}, {"b.example.net", 1}}}) {
    EXPECT_THAT(words(four, hosts), HasSubstr(" --mca orte_keep_fqdn_hostnames 1 "));
    EXPECT_EQ(words(five, hosts).find("keep_fqdn"), std::string::npos);
  }
  for (const auto& hosts :
       {std::vector<Placement>{{"n1", 2}, {"n2", 2}}, std::vector<Placement>{{"10.0.0.1", 1}, {"ann@10.0.0.2", 1}}}) {
    EXPECT_EQ(words(four, hosts).find("keep_fqdn"), std::string::npos);
  }
}

TEST(StartCommand, HostsWhoseNamesMpirunRefusesGetOthers) {
  StartRequest request = request_for({{"fd88::1", 2}, {"mpi_w2", 1}, {"n3", 1}});
  EXPECT_EQ(start_command({StarterKind::open_mpi, "/usr/bin/mpirun", "", ""}, request).hostfile_text,
            "trireme-name-fd88-c-c1 slots=2\ntrireme-name-mpi-uw2 slots=1\nn3 slots=1\n");
  request.this_host = "fd88::1";
  EXPECT_EQ(start_command({StarterKind::open_mpi, "/usr/bin/mpirun", "", ""}, request).hostfile_text,
            "localhost slots=2\ntrireme-name-mpi-uw2 slots=1\nn3 slots=1\n");
  EXPECT_EQ(start_command({StarterKind::hydra, "/usr/bin/mpiexec.hydra", "", ""}, request).hostfile_text,
            "localhost:2\nmpi_w2:1\nn3:1\n");
}

TEST(Starter, SaysWhyItIsMpirunInASlurmJob) {
  StarterRequest request{.wanted = "openmpi", .program = "", .mpi = "openmpi", .in_slurm_job = true};
  try {
    EXPECT_THAT(find_starter(request).why, HasSubstr("Open MPI is installed here and --starter openmpi asks for it"));
  } catch (const Error&) {
    GTEST_SKIP() << "no mpirun of Open MPI on this host";
  }
}

TEST(Ssh, PortsOfAHostfileReachSshAndTheRemoteShell) {
  const std::vector<Host> hosts = {
      {"n1", 1, 0, "", "", 2222}, {"ann@N2", 1, 0, "", "", 2022}, {"n3", 1, 0, "", ""}, {"fd88::1", 1, 0, "", "", 22}};
  RemoteOptions options;
  options.ports = read_ports_word(ports_word(remote_ports(hosts)));
  EXPECT_EQ(ports_word(options.ports).find_first_of(" :\t"), std::string::npos);
  const auto line = [&](const char* host) { return shell_join(ssh_command(options, host)); };
  EXPECT_THAT(line("n1"), testing::EndsWith(" -p 2222 n1"));
  EXPECT_THAT(line("ann@N2"), testing::EndsWith(" -p 2022 ann@N2"));
  EXPECT_THAT(line("fd88::1"), testing::EndsWith(" -p 22 fd88::1"));
  EXPECT_EQ(line("n3").find("-p "), std::string::npos);
  EXPECT_THAT(reason([] { read_ports_word("n1"); }), HasSubstr("--ports: expected HOST=PORT"));
}

TEST_F(Judge, TheDiskSpaceOfARunIsComparedWithTheFreeSpace) {
  request.disk_bytes = 9'700'000;
  for (NodeFacts& fact : facts) fact.disk_free = 100 << 20;
  EXPECT_EQ(problems(), "");
  facts[1].disk_free = 5'000'000;
  EXPECT_THAT(problems(), HasSubstr("n2: only 0.00 GiB are free for the run folder: 5.0 MB, but the run needs 9.7 MB "
                                    "for a snapshot; free disk space or set another run.dir"));
  request.disk_bytes = 0;
  EXPECT_EQ(problems(), "") << "a command that writes nothing";
}

}  // namespace
}  // namespace trireme::launch
