#include "comm/mesh.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trireme {
namespace {

std::string message_of(const MeshShape& wanted, int ranks) {
  try {
    resolve_mesh(wanted, ranks, "SLURM_NTASKS");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    return e.what();
  }
  return "no error";
}

TEST(Mesh, DataTakesTheRanksThatTheOtherAxesLeave) {
  EXPECT_EQ(resolve_mesh({}, 6, "").data, 6);
  EXPECT_EQ(resolve_mesh({0, 2, 3}, 12, "").data, 2);
  EXPECT_EQ(resolve_mesh({4, 1, 1}, 4, "").data, 4);
}

TEST(Mesh, AnErrorShowsTheArithmeticAndAShapeThatFits) {
  EXPECT_EQ(message_of({2, 4, 3}, 16),
            "mesh 2 x 4 x 3 needs 24 processes but the launcher started 16 (SLURM_NTASKS); set --mesh.data 2 "
            "--mesh.tensor 4 --mesh.pipeline 2");
  EXPECT_EQ(message_of({3, 1, 1}, 2),
            "mesh 3 x 1 x 1 needs 3 processes but the launcher started 2 (SLURM_NTASKS); set --mesh.data 2 "
            "--mesh.tensor 1 --mesh.pipeline 1");
  EXPECT_EQ(message_of({0, 4, 3}, 16),
            "mesh rest x 4 x 3 needs a multiple of 12 processes but the launcher started 16 (SLURM_NTASKS); set "
            "--mesh.data 4 --mesh.tensor 4 --mesh.pipeline 1");
  EXPECT_EQ(message_of({2, 3, 1}, 4),
            "mesh 2 x 3 x 1 needs 6 processes but the launcher started 4 (SLURM_NTASKS); set --mesh.data 4 "
            "--mesh.tensor 1 --mesh.pipeline 1");
}

TEST(Mesh, AnAxisBelowOneIsRefused) {
  EXPECT_EQ(message_of({1, 0, 1}, 1),
            "mesh 1 x 0 x 1 (data x tensor x pipeline) has an axis below 1; data 0 means all remaining ranks");
}

}  // namespace
}  // namespace trireme
