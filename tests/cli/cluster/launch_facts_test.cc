#include "cli/cluster/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/start/rank_table.h"

namespace trireme {
namespace {

using testing::HasSubstr;

JobFacts facts_of(const std::vector<std::string>& command) {
  LaunchRequest request;
  request.command = command;
  return describe_job(request);
}

TEST(LaunchFacts, WarnOfTensorGroupsOnSeveralHosts) {
  const JobFacts job =
      facts_of({"train", "--model.preset", "gpt2-124m", "--mesh.tensor", "6", "--data.train", "x.bin"});
  EXPECT_THAT(job.layout_warning(even_hosts(24, 3)),
              HasSubstr("2 of 4 tensor groups are on several hosts, so that the sums of every layer use the network"));
  EXPECT_EQ(job.layout_warning(even_hosts(24, 4)), "");
  EXPECT_EQ(job.layout_warning(even_hosts(20, 2)), "") << "the ranks name a mesh that is impossible";
}

}  // namespace
}  // namespace trireme
