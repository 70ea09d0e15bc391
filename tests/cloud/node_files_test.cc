// slurm.conf of a cluster.
#include "cloud/node_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace trireme::cloud {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kSmall = "CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=8001";
const std::string kLarge = "CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=32000";

Cluster cluster_of(bool accounting) {
  Cluster cluster;
  cluster.options.cluster.name = "sea";
  cluster.options.cluster.accounting = accounting;
  cluster.nodes = {{1, "sea-1", "10.0.0.4", ""}, {2, "sea-2", "10.0.0.5", ""}};
  return cluster;
}

TEST(SlurmHardware, IsReadFromItsLine) {
  const SlurmHardware read = parse_slurm_hardware("h2 yes 8 " + kSmall + "\n");
  EXPECT_EQ(read.host_name, "h2");
  EXPECT_TRUE(read.cgroups);
  EXPECT_EQ(read.gpus, 8);
  EXPECT_EQ(read.line, kSmall);
  EXPECT_ERROR(parse_slurm_hardware("h2 yes 0 \n"), ErrorKind::io,
               "cannot read the machine's hardware: slurmd -C printed \"h2 yes 0");
  EXPECT_ERROR(parse_slurm_hardware("h2 CPUs=4\n"), ErrorKind::io, "cannot read the machine's hardware");
}

TEST(SlurmConf, ConfinesJobsAndSharesNodes) {
  const std::string conf = slurm_conf(cluster_of(false), {{"a", true, 0, kSmall}, {"b", true, 0, kLarge}});
  for (const char* line :
       {"SlurmctldHost=a(10.0.0.4)", "SlurmUser=slurm", "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup,task/affinity", "SelectType=select/cons_tres", "SelectTypeParameters=CR_Core_Memory",
        "DefMemPerCPU=2000", "PropagateResourceLimitsExcept=MEMLOCK", "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none"}) {
    EXPECT_THAT(conf, HasSubstr(std::string("\n") + line + "\n"));
  }
  EXPECT_THAT(conf, HasSubstr("\nNodeName=sea-2 NodeHostname=b NodeAddr=10.0.0.5 " + kLarge + " State=UNKNOWN\n"));
  EXPECT_THAT(conf, Not(HasSubstr("Gres")));
}

TEST(SlurmConf, HasGpusAndAccountsWhereTheClusterDoes) {
  const std::string conf = slurm_conf(cluster_of(true), {{"a", true, 0, kSmall}, {"b", true, 8, kLarge}});
  EXPECT_THAT(conf, HasSubstr("\nAccountingStorageType=accounting_storage/slurmdbd\n"));
  EXPECT_THAT(conf, HasSubstr("\nAccountingStorageHost=10.0.0.4\n"));
  EXPECT_THAT(conf, HasSubstr("\nAccountingStorageTRES=gres/gpu\n"));
  EXPECT_THAT(conf, HasSubstr("\nJobAcctGatherType=jobacct_gather/cgroup\n"));
  EXPECT_THAT(conf, HasSubstr("\nGresTypes=gpu\n"));
  EXPECT_THAT(conf, HasSubstr(kSmall + " State=UNKNOWN\n"));
  EXPECT_THAT(conf, HasSubstr(kLarge + " Gres=gpu:8 State=UNKNOWN\n"));
  EXPECT_THAT(conf, Not(HasSubstr("Pass")));
}

TEST(SlurmConf, OneNodeWithoutControlGroupsChangesAll) {
  const std::string conf = slurm_conf(cluster_of(true), {{"a", false, 0, kSmall}, {"b", true, 0, kLarge}});
  EXPECT_THAT(conf, HasSubstr("\nProctrackType=proctrack/linuxproc\n"));
  EXPECT_THAT(conf, HasSubstr("\nTaskPlugin=task/affinity\n"));
  EXPECT_THAT(conf, HasSubstr("\nJobAcctGatherType=jobacct_gather/linux\n"));
}

}  // namespace
}  // namespace trireme::cloud
