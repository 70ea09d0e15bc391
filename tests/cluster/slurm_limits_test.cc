#include "cluster/sbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// sinfo -h -N -o "%N|%P|%c|%m|%l|%s|%a|%B|%G"
constexpr const char* kNodes =
    "h2|all*|2|4000|infinite|1-infinite|up|UNLIMITED|(null)\n"
    "h3|all*|2|8000|infinite|1-infinite|up|UNLIMITED|gpu:2(S:0)\n"
    "h2|small|2|4000|10:00|1|up|UNLIMITED|(null)\n"
    "h3|pairs|2|8000|1-00:00:00|2-4|down|1|gpu:2(S:0)\n"
    "not a row\n";

std::string never(void (*change)(BatchJob&)) {
  BatchJob job;
  change(job);
  return why_never(job, read_partitions(kNodes));
}

TEST(SlurmLimits, JobsThatCouldNeverStartAreKnown) {
  const std::pair<void (*)(BatchJob&), const char*> cases[] = {
      {[](BatchJob& j) { j.nodes = 9; }, "--nodes 9: the default partition has only 2 nodes"},
      {[](BatchJob& j) {
         j.nodes = 2;
         j.exclude = "h[3-4]";
       },
       "the default partition has only 1 node without those of --exclude"},
      {[](BatchJob& j) {
         j.nodes = 2;
         j.partition = "small";
       },
       "--nodes 2: partition small runs jobs of at most 1 node"},
      {[](BatchJob& j) { j.partition = "pairs"; }, "--nodes 1: partition pairs runs jobs of at least 2 nodes"},
      {[](BatchJob& j) {
         j.partition = "small";
         j.time = "60";
       },
       "--time 60: partition small runs jobs of at most 10 min"},
      {[](BatchJob& j) {
         j.partition = "small";
         j.time = "0";
       },
       "--time 0: partition small"},
      {[](BatchJob& j) {
         j.lines = {"--time=2:00:00", "-p small"};
       },
       "--time 2:00:00: partition small"},
      {[](BatchJob& j) { j.tasks_per_node = 99; },
       "--ntasks-per-node 99: 99 CPUs needed on each of 1 node, but the default partition has only 0 nodes with that "
       "much; the largest has 2"},
      {[](BatchJob& j) {
         j.tasks_per_node = 2;
         j.cpus_per_task = 2;
       },
       "--ntasks-per-node 2 with --cpus-per-task 2: 4 CPUs"},
      {[](BatchJob& j) {
         j.nodes = 2;
         j.memory = "6G";
       },
       "--mem 6G: 6144 MB needed on each of 2 nodes, but the default partition has only 1 node with that much"},
      {[](BatchJob& j) { j.gpus_per_node = "4"; }, "--gpus-per-node 4: 4 GPUs needed"},
      {[](BatchJob& j) { j.gres = "gpu:a100:4"; }, "--gres gpu:a100:4: 4 GPUs needed"},
      {[](BatchJob& j) { j.lines = {"--gres=gpu:5"}; }, "--gres gpu:5: 5 GPUs needed"},
      {[](BatchJob& j) { j.partition = "hpc"; }, "partition hpc has no nodes (others are all, pairs, small)"},
      {[](BatchJob& j) {
         j.partition = "small,hpc";
         j.time = "60";
       },
       "at most 10 min; partition hpc has no nodes"}};
  for (const auto& [change, said] : cases) EXPECT_THAT(never(change), HasSubstr(said));
}

TEST(SlurmLimits, AJobOfGpusGetsItsShareOfCoresAndMemory) {
  const auto nodes = read_partitions(
      "g1|gpu*|96|900000|infinite|1-infinite|up|UNLIMITED|gpu:8(S:0-1)\n"
      "g2|gpu*|128|800000|infinite|1-infinite|up|UNLIMITED|gpu:a100:8\n"
      "c1|cpu|64|256000|infinite|1-infinite|up|UNLIMITED|(null)\n"
      "g3|small|64|256000|infinite|1-infinite|up|32|gpu:4\n");
  BatchJob job;
  job.gpus_per_node = "8";
  job.tasks_per_node = 8;
  GpuShare share = share_of_gpus(job, nodes);
  EXPECT_EQ(share.cpus_per_task, 12);
  EXPECT_EQ(share.memory, "0");
  EXPECT_EQ(share.said,
            "--cpus-per-task 12 --mem 0: all cores and memory of each node, because the job has all of its GPUs");
  job.gpus_per_node = "";
  job.gres = "gpu:2";
  job.tasks_per_node = 2;
  share = share_of_gpus(job, nodes);
  EXPECT_EQ(share.cpus_per_task, 12);
  EXPECT_EQ(share.memory, "200000M");
  EXPECT_THAT(share.said, HasSubstr("of each node's cores and memory, the share that the job has of its GPUs"));
  job.partition = "small";
  EXPECT_EQ(share_of_gpus(job, nodes).cpus_per_task, 8) << "of the 32 that the partition allows";
  job.memory = "10G";
  EXPECT_EQ(share_of_gpus(job, nodes).memory, "");
  job.lines = {"--cpus-per-gpu=4"};
  EXPECT_EQ(share_of_gpus(job, nodes).said, "") << "the job asks for both itself";
  BatchJob whole;
  whole.gpus_per_node = "4";
  whole.exclusive = true;
  EXPECT_EQ(share_of_gpus(whole, nodes).said, "--mem 0: all memory of each node, because of --exclusive")
      << "Slurm gives it all cores";
  whole.partition = "cpu";
  EXPECT_EQ(share_of_gpus(whole, nodes).said, "");
  EXPECT_EQ(share_of_gpus({}, nodes).said, "") << "no GPU";
}

TEST(SlurmLimits, JobsThatCanStartAreAccepted) {
  void (*const cases[])(BatchJob&) = {[](BatchJob&) {},
                                      [](BatchJob& j) {
                                        j.nodes = 2;
                                        j.tasks_per_node = 2;
                                      },
                                      [](BatchJob& j) {
                                        j.partition = "small";
                                        j.time = "10";
                                      },
                                      [](BatchJob& j) { j.partition = "small"; },
                                      [](BatchJob& j) {
                                        j.partition = "small,all";
                                        j.time = "60";
                                      },
                                      [](BatchJob& j) {
                                        j.tasks_per_node = 99;
                                        j.lines = {"--overcommit"};
                                      },
                                      [](BatchJob& j) { j.memory = "0"; },
                                      [](BatchJob& j) { j.memory = "8000"; },
                                      [](BatchJob& j) { j.gpus_per_node = "2"; },
                                      [](BatchJob& j) { j.exclude = "h2"; }};
  for (auto* change : cases) EXPECT_EQ(never(change), "");
  EXPECT_EQ(why_never(BatchJob{}, {}), "") << "nothing is known";
}

TEST(SlurmLimits, APartitionThatIsDownGivesAWarning) {
  BatchJob job;
  EXPECT_EQ(start_warning(job, read_partitions(kNodes)), "");
  job.partition = "pairs";
  EXPECT_EQ(start_warning(job, read_partitions(kNodes)), "partition pairs is not up: the job waits until it is");
}

TEST(SlurmLimits, FoldersOfTheOutputAreKnown) {
  BatchJob job;
  EXPECT_THAT(output_folders(job), ElementsAre());
  job.output = "nodir/x-%j.out";
  EXPECT_THAT(output_folders(job), ElementsAre("nodir"));
  job.lines = {"--error=/var/log/a b/%j.err", "--comment=x/y"};
  EXPECT_THAT(output_folders(job), ElementsAre("nodir", "/var/log/a b"));
  job.lines = {"-o other/%j"};
  EXPECT_THAT(output_folders(job), ElementsAre("other"));
}

}  // namespace
}  // namespace trireme
