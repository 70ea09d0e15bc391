#include "base/cgroup.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Cgroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "trireme-cgroup-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  CgroupLimits limits() { return read_cgroup_limits(root_); }

 private:
  fs::path root_;
};

TEST_F(Cgroup, NothingToReadLimitsNothing) {
  EXPECT_EQ(limits().cpus, 0);
  EXPECT_EQ(limits().memory_bytes, 0);
}

TEST_F(Cgroup, VersionTwoTakesTheTightestLevel) {
  write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/slurm/job_7/cpu.max", "350000 100000\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", "4294967296\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "800000 100000\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/memory.events", "low 0\noom 9\noom_kill 9\n");
  write("sys/fs/cgroup/slurm/job_7/memory.events", "low 0\nhigh 0\nmax 41\noom 3\noom_kill 2\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 3.5);
  EXPECT_EQ(limits().memory_bytes, 4294967296);
  EXPECT_EQ(limits().oom_kills, 2) << "slurm limits no memory: what happens there is not this job's";
}

TEST_F(Cgroup, VersionOneHasOneHierarchyPerController) {
  write("proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
        "33 31 0:30 / /sys/fs/cgroup/memory rw,relatime shared:1 master:2 - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/jobs/a\n1:cpuacct,cpu:/jobs\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/jobs/a/memory.limit_in_bytes", "2000000000\n");
  write("sys/fs/cgroup/memory/jobs/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  EXPECT_DOUBLE_EQ(limits().cpus, 1.5);
  EXPECT_EQ(limits().memory_bytes, 2000000000);
  EXPECT_EQ(limits().oom_kills, 1);
}

TEST_F(Cgroup, VersionOnesSignsForNoLimitLimitNothing) {
  write("proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  write("proc/self/cgroup", "4:memory:/\n1:cpu:/\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limits().cpus, 0);
  EXPECT_EQ(limits().memory_bytes, 0);
}

TEST_F(Cgroup, AContainerSeesItsGroupAsTheTopOfTheMount) {
  write("proc/self/mountinfo",
        "33 31 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n"
        "34 31 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  write("proc/self/cgroup", "4:memory:/docker/abc\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000000\n");
  EXPECT_EQ(limits().memory_bytes, 1000000000);
}

}  // namespace
}  // namespace trireme
