// What the suites of tests/ops cannot see: limits of the GPU's operators.

#include <gmock/gmock.h>

#include "cuda/cuda_ops.h"
#include "model/presets.h"
#include "model/stage.h"
#include "ops/backend.h"
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
               "sum_contributions: 201 ranks share a gradient, but GPUs support at most 200; use fewer data ranks");
}

TEST(CudaOps, HeadsTakeBlocksOf8192Rows) {
  CudaOps gpu(host_device(), make_plain_products());
  const auto cpu = make_cpu_ops();
  const Spec spec = preset("gpt2-124m").spec;
  const Layout head{{.first_layer = 12, .last_layer = 12, .embedding = false, .head = true}};
  const auto bytes = [&](const Ops& ops) {
    return stage_bytes(spec, DType::bf16, {.rows = 16384, .accumulates = false}, ops, 1, head).activations;
  };
  // 640 rows of logits take the place of what blocks keep, 8,192 need more; and of each row there are the maximum, the
  // sum and the target's logit.
  const int64_t logits = 8192 * spec.vocabulary_rows * 2, blocks = 16384 * 2 * spec.inner_width * 2;
  EXPECT_EQ(bytes(gpu) - bytes(*cpu), static_cast<size_t>(logits - blocks + (8192 - 640) * 3 * 4));
}

TEST(PlannedGpuOps, HasTheSizesOfTheGpusOperators) {
  CudaOps gpu(host_device(), make_plain_products());
  const auto planned = make_planned_gpu_ops();
  EXPECT_FALSE(planned->device().is_host());
  EXPECT_EQ(planned->head_block().rows, gpu.head_block().rows);
  EXPECT_EQ(planned->head_block().bytes, gpu.head_block().bytes);
  for (const int64_t rows : {1, 63, 640, 2048, 8192, 131072})
    for (const int64_t width : {1, 255, 768, 1025, 6144, 24576, 50304})
      for (const int heads : {0, 1, 12, 64}) {
        CallSizes sizes{.dtype = DType::bf16, .rows = rows, .width = width};
        if (heads > 0) sizes.attention = {.kv_heads = heads, .group = 1, .head_dim = 64, .offsets = {}};
        EXPECT_EQ(planned->scratch_bytes(sizes), gpu.scratch_bytes(sizes))
            << rows << " x " << width << ", " << heads << " heads";
      }
}

TEST(PlannedGpuOps, ComputeNothing) {
  const auto planned = make_planned_gpu_ops();
  std::vector<float> x(4), w(4), y(4);
  Context context;
  EXPECT_ERROR(planned->linear(context, view(x).reshape({2, 2}), view(w).reshape({2, 2}), {}, view(y).reshape({2, 2})),
               ErrorKind::shape, "which is not an activation type of the cuda backend");
  EXPECT_ERROR(planned->device().allocate(1), ErrorKind::usage, "a plan of a GPU cannot compute");
}

TEST(CudaOps, AttentionStaysWithinThePlannedScratch) {
  CudaOps ops(host_device(), make_plain_products());
  for (const int head_dim : {20, 32})
    for (const int group : {1, 4}) {
      const int64_t rows = 70, parts = group + 2;
      const std::vector<int32_t> offsets{0, 70};
      const AttentionShape shape{
          .kv_heads = 3, .group = group, .head_dim = head_dim, .causal = true, .scale = 1, .offsets = view(offsets)};
      std::vector<bf16_t> qkv(static_cast<size_t>(rows * 3 * parts * head_dim)), dqkv = qkv;
      std::vector<bf16_t> out(static_cast<size_t>(rows * 3 * group * head_dim)), dout = out;
      std::vector<float> lse(static_cast<size_t>(rows * 3 * group));
      const Shape packed{rows, 3, parts, head_dim}, of_heads{rows, int64_t{3} * group, head_dim};
      const size_t planned =
          ops.scratch_bytes({.dtype = DType::bf16, .rows = rows, .width = 3 * parts * head_dim, .attention = shape});
      Arena scratch(planned);
      Context context{.scratch = &scratch};
      const View statistics = view(lse).reshape({int64_t{3} * group, rows});
      ops.attention(context, view(qkv).reshape(packed), shape, {}, view(out).reshape(of_heads), statistics);
      ops.attention_backward(context, view(dout).reshape(of_heads), view(qkv).reshape(packed),
                             view(out).reshape(of_heads), statistics, shape, {}, view(dqkv).reshape(packed));
      EXPECT_LE(scratch.peak(), planned);
      EXPECT_EQ(scratch.used(), 0u);
    }
}

}  // namespace
}  // namespace trireme
