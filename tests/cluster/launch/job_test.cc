#include "cluster/launch/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;

TEST(RankCommand, BeginsWithTheWordsOfTheContainer) {
  LaunchRequest request;
  request.command = {"train", "my run.yaml"};
  EXPECT_THAT(rank_command(request), ElementsAre(testing::StartsWith("/"), "train", "my run.yaml"));
  request.container = " apptainer exec  /shared/trireme.sif ";
  EXPECT_THAT(rank_command(request),
              ElementsAre("apptainer", "exec", "/shared/trireme.sif", "trireme", "train", "my run.yaml"));
  request.defaults = {"precision.dtype=bf16"};
  EXPECT_THAT(rank_command(request), ElementsAre("apptainer", "exec", "/shared/trireme.sif", "trireme", "train",
                                                 "my run.yaml", "--default", "precision.dtype=bf16"));
  request.any_program = true;
  request.command = {"hostname"};
  EXPECT_THAT(rank_command(request), ElementsAre("apptainer", "exec", "/shared/trireme.sif", "hostname"));
}

}  // namespace
}  // namespace trireme
