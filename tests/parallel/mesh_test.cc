#include "comm/mesh.h"

#include <gtest/gtest.h>

#include "tests/support/parallel.h"

namespace trireme {
namespace {

TEST(MeshOverRanks, TensorPeersAreNeighbours) {
  if (test_process().size() != 4) GTEST_SKIP() << "needs 4 ranks";
  const int rank = test_process().rank();
  Mesh mesh(test_process().world(), {2, 2, 1});
  EXPECT_EQ(mesh.tensor_rank(), rank % 2);
  EXPECT_EQ(mesh.data_rank(), rank / 2);
  EXPECT_EQ(mesh.pipeline_rank(), 0);
  EXPECT_EQ(mesh.data().size(), 2);
  EXPECT_EQ(mesh.tensor().size(), 2);
  EXPECT_EQ(mesh.pipeline().size(), 1);
  std::vector<int32_t> sum{rank};
  mesh.tensor().all_reduce(View(std::span(sum), Shape{1}), Reduction::sum).wait("test");
  EXPECT_EQ(sum[0], rank < 2 ? 0 + 1 : 2 + 3);
}

TEST(MeshOverRanks, PipelineStagesAreOutermost) {
  if (test_process().size() != 4) GTEST_SKIP() << "needs 4 ranks";
  const Mesh mesh(test_process().world(), {2, 1, 2});
  EXPECT_EQ(mesh.data_rank(), test_process().rank() % 2);
  EXPECT_EQ(mesh.pipeline_rank(), test_process().rank() / 2);
}

TEST(MeshOverRanks, AllRanksAreDataRanksByDefault) {
  const Mesh mesh(test_process().world(), resolve_mesh({}, test_process().size(), "mpirun"));
  EXPECT_EQ(mesh.data_rank(), test_process().rank());
  EXPECT_EQ(mesh.shape().data, test_process().size());
}

}  // namespace
}  // namespace trireme
