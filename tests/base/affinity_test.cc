#include "base/affinity.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// A folder used as "/", removed at the end.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (fs::temp_directory_path() / "trireme-affinity-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;
  ~FakeRoot() { fs::remove_all(path_); }
  void process(const std::string& pid, const std::string& name, int parent, const std::string& cpus) {
    fs::create_directories(path_ / "proc" / pid);
    std::ofstream(path_ / "proc" / pid / "status")
        << "Name:\t" << name << "\nUmask:\t0022\nPPid:\t" << parent << "\nCpus_allowed_list:\t" << cpus << "\n";
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

TEST(CpuList, ReadsAndWritesRanges) {
  EXPECT_EQ(parse_cpu_list("0-3,8"), (Cpus{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), Cpus{5});
  EXPECT_EQ(parse_cpu_list(""), Cpus{});
  EXPECT_EQ(parse_cpu_list("7,1-2,2"), (Cpus{1, 2, 7}));
  EXPECT_EQ(format_cpu_list({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
  EXPECT_EQ(format_cpu_list({}), "");
}

TEST(CpuList, RefusesOtherText) {
  for (const char* text : {"a", "1-", "-1", "1,,2", "1-x", "99999999"}) {
    EXPECT_THROW(parse_cpu_list(text), Error) << text;
  }
  try {
    parse_cpu_list("0-3,x");
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "processor list \"0-3,x\": found \"x\", expected a number, as in 0-3,8");
  }
}

TEST(OfferedCpus, AreThoseOfTheStarterThatBoundUsMoreNarrowly) {
  FakeRoot root;
  root.process("self", "trireme", 30, "2");
  root.process("30", "sh", 20, "2");  // a wrapper script
  root.process("20", "orted", 10, "0-15");
  root.process("10", "sshd", 1, "0-31");
  EXPECT_EQ(format_cpu_list(offered_cpus(root.path())), "0-15");
}

TEST(OfferedCpus, KnowHydrasProxyByItsCutName) {
  FakeRoot root;
  root.process("self", "trireme", 20, "2");
  root.process("20", "hydra_pmi_proxy", 10, "0-3");
  EXPECT_EQ(format_cpu_list(offered_cpus(root.path())), "0-3");
}

TEST(OfferedCpus, AreTheInheritedOnesWithoutAStarter) {
  FakeRoot root;
  root.process("self", "trireme", 30, "2");
  root.process("30", "bash", 1, "0-15");
  EXPECT_EQ(offered_cpus(root.path()), inherited_cpus());
  EXPECT_EQ(offered_cpus("/nonexistent"), inherited_cpus());
}

TEST(PhysicalCores, CoverTheInheritedProcessors) {
  Cpus all;
  for (const Cpus& core : physical_cores()) all.insert(all.end(), core.begin(), core.end());
  for (const int cpu : inherited_cpus()) EXPECT_NE(std::ranges::find(all, cpu), all.end()) << cpu;
}

TEST(Sockets, AreThoseOfTheMachine) {
  setenv("HWLOC_SYNTHETIC", "package:2 core:3 pu:2", 1);
  const std::vector<Cpus> found = sockets(), cores = physical_cores();
  unsetenv("HWLOC_SYNTHETIC");
  EXPECT_EQ(found, (std::vector<Cpus>{{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}));
  EXPECT_EQ(cores.size(), 6u);
  EXPECT_EQ(sockets_of(found, {0, 5}), 1u);
  EXPECT_EQ(sockets_of(found, {5, 6}), 2u);
  EXPECT_EQ(sockets_of(found, {12}), 0u);
}

TEST(Apply, BindsEveryComputeThread) {
  std::thread([] {  // so that the test's own thread stays free
    const Cpus before = inherited_cpus();
    CorePlan plan;
    plan.threads = 2;
    plan.thread_cpus = {{before.front()}, {before.back()}};
    apply(plan);
    EXPECT_EQ(inherited_cpus(), Cpus{before.front()});
    EXPECT_EQ(offered_cpus("/no/such/root"), before) << "what the job was given stays what it was";
    Cpus second;
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) second = inherited_cpus();
    EXPECT_EQ(second, Cpus{before.back()});
  })
      .join();
}

TEST(Apply, NamesProcessorsThatTheSystemRefuses) {
  std::thread([] {
    CorePlan plan;
    plan.thread_cpus = {{9999}};
    try {
      apply(plan);
      ADD_FAILURE() << "expected an error";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()).substr(0, 34), "cannot run on processors 9999: Inv") << e.what();
    }
  }).join();
}

}  // namespace
}  // namespace trireme
