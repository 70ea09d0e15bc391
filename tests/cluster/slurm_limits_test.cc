#include "cluster/slurm_limits.h"

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
       "--ntasks-per-node 99: 99 CPUs are needed on each of 1 node, but only 0 of the 2 nodes of the default partition "
       "have them; the largest has 2"},
      {[](BatchJob& j) {
         j.tasks_per_node = 2;
         j.cpus_per_task = 2;
       },
       "--ntasks-per-node 2 with --cpus-per-task 2: 4 CPUs"},
      {[](BatchJob& j) {
         j.nodes = 2;
         j.memory = "6G";
       },
       "--mem 6G: 6144 MB are needed on each of 2 nodes, but only 1 of the 2"},
      {[](BatchJob& j) { j.gpus_per_node = "4"; }, "--gpus-per-node 4: 4 GPUs are needed"},
      {[](BatchJob& j) { j.gres = "gpu:a100:4"; }, "--gres gpu:a100:4: 4 GPUs are needed"},
      {[](BatchJob& j) { j.lines = {"--gres=gpu:5"}; }, "--gres gpu:5: 5 GPUs are needed"},
      {[](BatchJob& j) { j.partition = "hpc"; }, "partition hpc has no nodes (others are all, pairs, small)"},
      {[](BatchJob& j) {
         j.partition = "small,hpc";
         j.time = "60";
       },
       "at most 10 min; partition hpc has no nodes"}};
  for (const auto& [change, said] : cases) EXPECT_THAT(never(change), HasSubstr(said));
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
