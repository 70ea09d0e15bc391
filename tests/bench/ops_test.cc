#include "bench/ops.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

class OpsBench : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, OpsBench, testing::Values(Case{DType::f32, 1}, Case{DType::bf16, 2}), case_name);

TEST_P(OpsBench, MeasuresEveryOperatorAgainstItsCeiling) {
  OpsBenchOptions tiny;
  tiny.sequences = 2;
  tiny.length = 16;
  tiny.width = 32;
  tiny.heads = 2;
  tiny.vocabulary = 50;
  tiny.columns = 64;
  tiny.loss_rows = 8;
  tiny.parameters = 1000;
  tiny.rotation = 2e4;
  tiny.seconds = 0;
  tiny.dtype = GetParam().dtype;
  tiny.threads = GetParam().threads;
  const OpsBenchTable table = bench_ops(*cpu->ops, tiny);
  std::vector<std::string> names;
  double best_product = 0;
  for (const OpsBenchRow& row : table.rows) {
    SCOPED_TRACE(row.op);
    names.push_back(row.op);
    EXPECT_GT(row.fastest, 0);
    EXPECT_LE(row.fastest, row.seconds);
    EXPECT_GT(row.rate, 0);
    EXPECT_DOUBLE_EQ(row.share, row.rate / (row.counts_bytes ? table.copy_bytes_per_s : table.gemm_flops_per_s));
    EXPECT_GT(row.best, 0);
    EXPECT_EQ(row.cached > 0, row.counts_bytes && !row.op.starts_with("embedding") && row.op != "bias_backward");
    if (row.op.starts_with("linear")) best_product = std::max(best_product, row.share);
  }
  EXPECT_EQ(table.rows.front().share, 1);  // the copy is its own ceiling, and so is the fastest product
  EXPECT_EQ(best_product, 1);
  EXPECT_THAT(names, testing::IsSupersetOf({"linear",
                                            "linear_backward_input",
                                            "linear_backward_weight",
                                            "bias_backward",
                                            "layer_norm",
                                            "layer_norm_backward",
                                            "gelu_tanh",
                                            "gelu_erf_backward",
                                            "relu",
                                            "residual_add",
                                            "dropout_add",
                                            "dropout_backward",
                                            "embedding",
                                            "embedding_backward",
                                            "attention",
                                            "attention_backward",
                                            "attention_one_sequence",
                                            "attention_backward_mixed_lengths",
                                            "softmax_stats",
                                            "cross_entropy_backward",
                                            "head",
                                            "head_backward_input",
                                            "head_backward_weight",
                                            "squared_norms",
                                            "add",
                                            "zero",
                                            "adamw",
                                            "element_sum_one_thread"}));
  EXPECT_THAT(to_text(table), testing::HasSubstr("GFLOP/s\noperator"));
  EXPECT_EQ(std::ranges::count(to_text(table), '\n'), static_cast<int64_t>(names.size()) + 2);
}

TEST(OpsBenchTable, MeasuresAnotherHeadSizeAndOnlyWhatWasAskedFor) {
  const auto cpu = Device::cpu(1);
  OpsBenchOptions one;
  one.sequences = 1;
  one.length = 16;
  one.width = 128;
  one.heads = 2;
  one.vocabulary = 50;
  one.columns = 64;
  one.parameters = 1000;
  one.rotation = one.seconds = 0;
  one.only = "attention,soft";
  std::vector<std::string> names;
  for (const OpsBenchRow& row : bench_ops(*cpu->ops, one).rows) names.push_back(row.op);
  EXPECT_THAT(names, testing::ElementsAre(
                         "copy", "linear", "linear_backward_input", "linear_backward_weight", "attention",
                         "attention_backward", "attention_size_128", "attention_backward_size_128", "attention_group_2",
                         "attention_backward_group_2", "attention_window_8", "attention_backward_window_8",
                         "attention_window_4", "attention_backward_window_4", "attention_window_2",
                         "attention_backward_window_2", "attention_window_1", "attention_backward_window_1",
                         "attention_mixed_lengths", "attention_backward_mixed_lengths", "softmax_stats"));
  one.only = "softmax,atention";
  EXPECT_ERROR(bench_ops(*cpu->ops, one), ErrorKind::usage,
               "--only atention: no operator's name begins with it; there are copy, linear, ");
}

TEST(OpsBenchTable, SaysWhatAnOperatorIsBoundBy) {
  OpsBenchRow row;
  row.fastest = 1;
  row.amount = 8;
  row.best = 0.9;
  row.cached = 20;
  EXPECT_EQ(row.bound(), "memory");
  row.best = 0.5;
  EXPECT_EQ(row.bound(), "");
  row.cached = 9;
  EXPECT_EQ(row.bound(), "arithmetic");
  row.cached = 0;
  EXPECT_EQ(row.bound(), "") << "not measured";
  row.counts_bytes = false;
  row.best = 0.85;
  EXPECT_EQ(row.bound(), "products");
}

}  // namespace
}  // namespace trireme::test
