// What is left to cuDNN, and what it is given. tests/ops compares results, with plain loops in its place.

#include "cuda/attention_library.h"

#include <gtest/gtest.h>

#include "cuda/cuda_ops.h"
#include "model/batch_place.h"
#include "tests/gpu/plain_attention.h"
#include "tests/gpu/plain_products.h"
#include "tests/support/vector_view.h"

namespace trireme {
namespace {

constexpr AttentionShape kShape{.kv_heads = 12, .head_dim = 64, .scale = 0.125f, .offsets = {}, .equal_length = 1024};

TEST(AttentionLibrary, TakesWhatItComputesAlikeAndDeterministically) {
  const auto reason = [](AttentionShape shape, float rate = 0, DType dtype = DType::bf16, int capability = 90) {
    return reason_for_own_kernels(capability, dtype, shape, rate);
  };
  for (const int capability : {80, 86, 90}) EXPECT_EQ(reason(kShape, 0, DType::bf16, capability), "");
  for (const int capability : {75, 89, 100, 120}) EXPECT_EQ(reason(kShape, 0, DType::bf16, capability), "this GPU");
  EXPECT_EQ(reason(kShape, 0, DType::f16), "");
  EXPECT_EQ(reason(kShape, 0, DType::f32), "f32");
  EXPECT_EQ(reason(kShape, 0.1f), "dropout");
  const auto with = [&](auto member, auto value) {
    AttentionShape shape = kShape;
    shape.*member = value;
    return reason(shape);
  };
  EXPECT_EQ(with(&AttentionShape::causal, false), "");
  EXPECT_EQ(with(&AttentionShape::equal_length, 0), "sequences of different lengths");
  for (const int length : {8, 64, 1000})
    EXPECT_EQ(with(&AttentionShape::equal_length, length), "the sequences' length");
  EXPECT_EQ(with(&AttentionShape::group, 4), "groups of query heads");
  EXPECT_EQ(with(&AttentionShape::window, 1023), "a window");
  EXPECT_EQ(with(&AttentionShape::window, 1024), "");
  EXPECT_EQ(with(&AttentionShape::soft_cap, 50.0f), "a soft cap");
  for (const int size : {32, 80, 96, 128}) EXPECT_EQ(with(&AttentionShape::head_dim, size), "");
  for (const int size : {16, 20, 72, 256}) EXPECT_EQ(with(&AttentionShape::head_dim, size), "the head size");
}

TEST(AttentionLibrary, ABatchKnowsWhetherItsSequencesAreEquallyLong) {
  const auto length = [](std::vector<int32_t> offsets) { return equal_length(view(offsets)); };
  EXPECT_EQ(length({0, 5, 10, 15}), 5);
  EXPECT_EQ(length({0, 128}), 128);
  EXPECT_EQ(length({0, 5, 9}), 0);
  EXPECT_EQ(length({0, 5, 10, 10}), 0);
  EXPECT_EQ(length({0, 0}), 0);
  EXPECT_EQ(length({0}), 0);
}

/// A training call of two heads of 32 with this scratch memory; whether plain loops computed it: they write their
/// workspace over.
void run(CudaOps& ops, AttentionShape shape, size_t scratch_bytes, size_t* peak) {
  const int64_t rows = 256;
  const std::vector<int32_t> offsets{0, 128, 256};
  shape.offsets = view(offsets);
  std::vector<bf16_t> qkv(static_cast<size_t>(rows * 2 * 3 * 32)), dqkv = qkv, out(static_cast<size_t>(rows * 2 * 32)),
                                                                   dout = out;
  std::vector<float> lse(static_cast<size_t>(rows * 2));
  Arena scratch(scratch_bytes);
  Context context{.scratch = &scratch};
  const Shape packed{rows, 2, 3, 32}, of_heads{rows, 2, 32};
  const View statistics = view(lse).reshape({2, rows});
  ops.attention(context, view(qkv).reshape(packed), shape, {}, view(out).reshape(of_heads), statistics);
  ops.attention_backward(context, view(dout).reshape(of_heads), view(qkv).reshape(packed), view(out).reshape(of_heads),
                         statistics, shape, {}, view(dqkv).reshape(packed));
  *peak = scratch.peak();
  EXPECT_EQ(scratch.used(), 0u);
}

TEST(AttentionLibrary, ItsWorkspaceIsPlannedAndWithoutItOwnKernelsCompute) {
  CudaOps ops(host_device(), make_plain_products(), make_plain_attention());
  CudaOps own(host_device(), make_plain_products());
  const AttentionShape shape{
      .kv_heads = 2, .head_dim = 32, .causal = true, .scale = 1, .offsets = {}, .equal_length = 128};
  CallSizes sizes{.dtype = DType::bf16, .rows = 256, .width = 192, .attention = shape};
  const size_t planned = ops.scratch_bytes(sizes);
  size_t peak = 0;
  run(ops, shape, planned, &peak);
  EXPECT_LE(peak, planned);
  EXPECT_EQ(peak, 448u) << "of plain loops: 2 sequences x 2 heads x 100 bytes, in steps of 64";
  const size_t of_own = size_t{256} * 2 * sizeof(float);
  run(own, shape, planned, &peak);
  EXPECT_EQ(peak, of_own);
  const AttentionShape unknown{.kv_heads = 2, .head_dim = 32, .causal = true, .scale = 1, .offsets = {}};
  run(ops, unknown, planned, &peak);
  EXPECT_EQ(peak, of_own) << "nobody said that lengths are equal";
}

}  // namespace
}  // namespace trireme
