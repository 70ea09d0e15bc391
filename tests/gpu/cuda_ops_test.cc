// What the suites of tests/ops cannot see: limits of the GPU's operators.

#include <gmock/gmock.h>

#include "cuda/cuda_ops.h"
#include "tests/gpu/plain_products.h"
#include "tests/support/expect_error.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

TEST(CudaOps, MoreRanksThanALaunchHoldsAreAnError) {
  CudaOps ops(host_device(), make_plain_products());
  Context context;
  std::vector<float> own(3, 1), sum(3);
  std::vector<ConstView> parts(200);
  ops.sum_contributions(context, parts, view(own), view(sum));
  EXPECT_EQ(sum, std::vector<float>(3, 200));
  parts.resize(201);
  EXPECT_ERROR(ops.sum_contributions(context, parts, view(own), view(sum)), ErrorKind::usage,
               "sum_contributions: 201 ranks share a gradient, at most 200 can on GPUs; use fewer data ranks");
}

}  // namespace
}  // namespace trireme
