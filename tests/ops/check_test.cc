// Every argument error names the operator, the value found and the value expected.

#include "ops/check.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

template <class F>
void expect_error(ErrorKind kind, const std::string& text, F&& f) {
  try {
    f();
    ADD_FAILURE() << "nothing was thrown, expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(text));
  }
}

class Checks : public testing::Test {
 protected:
  template <class F>
  void expect_shape_error(const std::string& text, F&& f) {
    expect_error(ErrorKind::shape, text, std::forward<F>(f));
  }
  static Tensor f32(Shape shape) { return Tensor(DType::f32, shape); }
  static Tensor i32(const std::vector<double>& values) {
    const auto n = static_cast<int64_t>(values.size());
    return Tensor(DType::i32, {n}, values);
  }
  std::unique_ptr<Device> d = Device::cpu(1);
  Ops& ops = *d->ops;
  Context& context = d->context;
};

TEST_F(Checks, LinearNamesTheMatrixThatDoesNotFit) {
  Tensor x = f32({4, 8}), w = f32({5, 7}), y = f32({4, 5}), bias = f32({6});
  expect_shape_error("linear: w is f32 [5, 7], expected f32 [5, 8]",
                     [&] { ops.linear(context, x.view(), w.view(), {}, y.view()); });
  w = f32({5, 8});
  expect_shape_error("linear: bias is f32 [6], expected f32 [5]",
                     [&] { ops.linear(context, x.view(), w.view(), bias.view(), y.view()); });
  y = Tensor(DType::bf16, {4, 5});
  expect_shape_error("linear: y is bf16 [4, 5], expected f32 [4, 5]",
                     [&] { ops.linear(context, x.view(), w.view(), {}, y.view()); });
  expect_shape_error("linear: y is empty, expected f32 [4, 5]",
                     [&] { ops.linear(context, x.view(), w.view(), {}, {}); });
  expect_shape_error("linear: x is f32 [6], expected 2 dims",
                     [&] { ops.linear(context, bias.view(), w.view(), {}, y.view()); });
}

TEST_F(Checks, BackendsTakeTheirOwnTypes) {
  Tensor x(DType::f64, {4, 8}), w(DType::f64, {5, 8}), y(DType::f64, {4, 5});
  expect_shape_error("linear: x is f64 [4, 8], which is not an activation type of the cpu backend",
                     [&] { ops.linear(context, x.view(), w.view(), {}, y.view()); });
  const auto reference = Device::reference();
  Tensor narrow = f32({4, 8});
  expect_shape_error("linear: x is f32 [4, 8], which is not an activation type of the reference backend",
                     [&] { reference->ops->linear(reference->context, narrow.view(), w.view(), {}, y.view()); });
}

TEST_F(Checks, LinearActivationAndBackward) {
  Tensor x = f32({4, 8}), w = f32({5, 8}), y = f32({4, 5}), wrong = f32({4, 6}), db = f32({4});
  expect_shape_error("linear_activation: pre is f32 [4, 6], expected f32 [4, 5]", [&] {
    ops.linear_activation(context, x.view(), w.view(), {}, Activation::relu, wrong.view(), y.view());
  });
  expect_shape_error("linear_backward_input: w is f32 [5, 8], expected f32 [6, 8]",
                     [&] { ops.linear_backward_input(context, wrong.view(), w.view(), x.view()); });
  expect_shape_error("linear_backward_weight: dw is f32 [4, 5], expected f32 [5, 8]",
                     [&] { ops.linear_backward_weight(context, y.view(), x.view(), y.view(), Write::overwrite); });
  expect_shape_error("bias_backward: db is f32 [4], expected f32 [5]",
                     [&] { ops.bias_backward(context, y.view(), db.view(), Write::overwrite); });
}

TEST_F(Checks, LayerNorm) {
  Tensor x = f32({4, 8}), w = f32({8}), y = f32({4, 8}), mean = f32({4}), wrong = f32({3});
  expect_shape_error("layer_norm: rstd is f32 [3], expected f32 [4]", [&] {
    ops.layer_norm(context, x.view(), w.view(), {}, 1e-5f, y.view(), mean.view(), wrong.view());
  });
  expect_shape_error("layer_norm: eps is 0, expected a positive number",
                     [&] { ops.layer_norm(context, x.view(), w.view(), {}, 0, y.view(), mean.view(), mean.view()); });
  expect_shape_error("layer_norm_backward: dw is f32 [3], expected f32 [8]", [&] {
    ops.layer_norm_backward(context, y.view(), x.view(), w.view(), mean.view(), mean.view(), x.view(), wrong.view(), {},
                            Write::overwrite);
  });
}

TEST_F(Checks, Fusions) {
  Tensor x = f32({4, 8}), w = f32({8}), stat = f32({4}), wrong = f32({3});
  const auto call = [&](const RowNorm& norm, ConstView residual, View mean) {
    ops.dropout_add_norm(context, x.view(), residual, {}, 1, x.view(), norm, x.view(), mean, stat.view());
  };
  const RowNorm layer{.w = std::as_const(w).view()}, rms{.w = layer.w, .centered = false};
  expect_shape_error("dropout_add_norm: residual is empty, expected f32 [4, 8]", [&] { call(layer, {}, stat.view()); });
  expect_shape_error("dropout_add_norm: mean is f32 [3], expected f32 [4]",
                     [&] { call(layer, x.view(), wrong.view()); });
  RowNorm bad = layer;
  bad.offset = 1;
  expect_shape_error("dropout_add_norm: a layer norm has no offset", [&] { call(bad, x.view(), stat.view()); });
  bad = rms;
  bad.b = layer.w;
  expect_shape_error("dropout_add_norm: an RMS norm has no b", [&] { call(bad, x.view(), {}); });
  call(rms, x.view(), {});
  expect_shape_error("activation_bias_backward: db is f32 [3], expected f32 [8]", [&] {
    ops.activation_bias_backward(context, x.view(), x.view(), Activation::relu, x.view(), wrong.view(),
                                 Write::overwrite);
  });
}

TEST_F(Checks, RmsNorm) {
  Tensor x = f32({4, 8}), w = f32({8}), y = f32({4, 8}), rstd = f32({4}), wrong = f32({3});
  const auto call = [&](const Tensor& gain, float offset, float eps, Tensor& to) {
    ops.rms_norm(context, x.view(), gain.view(), offset, eps, to.view(), rstd.view());
  };
  expect_shape_error("rms_norm: w is f32 [3], expected f32 [8]", [&] { call(wrong, 0, 1e-5f, y); });
  expect_shape_error("rms_norm: eps is 0, expected a positive number", [&] { call(w, 0, 0, y); });
  expect_shape_error("rms_norm: offset is 0.5, expected 0 or 1", [&] { call(w, 0.5f, 1e-5f, y); });
  expect_shape_error("rms_norm: y is f32 [8], expected f32 [4, 8]", [&] { call(w, 0, 1e-5f, w); });
  expect_shape_error("rms_norm_backward: dw is f32 [3], expected f32 [8]", [&] {
    ops.rms_norm_backward(context, y.view(), x.view(), w.view(), 0, rstd.view(), x.view(), wrong.view(),
                          Write::overwrite);
  });
}

TEST_F(Checks, QueryKeyNorm) {
  Tensor qkv = f32({3, 2, 4, 8}), y = f32({3, 2, 4, 8}), q = f32({8}), k = f32({8}), wide = f32({32});
  Tensor squares = f32({3, 6}), two = f32({3, 2});
  QueryKeyNorm norm{.q = q.view(), .k = k.view(), .q_count = 8, .k_count = 8};
  const auto call = [&](const QueryKeyNorm& n, Tensor& of) {
    ops.query_key_squares(context, qkv.view(), n, of.view());
  };
  expect_shape_error("query_key_squares: squares is f32 [3, 2], expected f32 [3, 6]", [&] { call(norm, two); });
  QueryKeyNorm wrong = norm;
  wrong.whole = true;
  expect_shape_error("query_key_squares: q is f32 [8], expected f32 [32]", [&] { call(wrong, two); });
  wrong.q = wide.view();
  expect_shape_error("query_key_squares: k is f32 [8], expected f32 [16]", [&] { call(wrong, two); });
  wrong = norm;
  wrong.q_count = 7;
  expect_shape_error("query_key_squares: means of 7 and 8 values, expected at least 8 and 8",
                     [&] { call(wrong, squares); });
  expect_shape_error("query_key_norm: y is f32 [8], expected f32 [3, 2, 4, 8]",
                     [&] { ops.query_key_norm(context, qkv.view(), norm, squares.view(), q.view()); });
  expect_shape_error("query_key_norm_backward: dk is f32 [32], expected f32 [8]", [&] {
    ops.query_key_norm_backward(context, y.view(), qkv.view(), norm, squares.view(), squares.view(), q.view(),
                                wide.view(), Write::overwrite);
  });
}

TEST_F(Checks, GatesFactorsAndCaps) {
  Tensor x = f32({4, 8}), y = f32({4, 3}), odd = f32({4, 7});
  expect_shape_error("gated_activation: y is f32 [4, 3], expected f32 [4, 4]",
                     [&] { ops.gated_activation(context, x.view(), Activation::silu, y.view()); });
  expect_shape_error("gated_activation: x is f32 [4, 7], expected an even width",
                     [&] { ops.gated_activation(context, odd.view(), Activation::silu, y.view()); });
  expect_shape_error("gated_activation_backward: dy is f32 [4, 3], expected f32 [4, 4]",
                     [&] { ops.gated_activation_backward(context, y.view(), x.view(), Activation::silu, x.view()); });
  expect_shape_error("dropout_add: factor is inf, expected a finite number",
                     [&] { ops.dropout_add(context, x.view(), {}, {}, x.view(), INFINITY); });
  expect_shape_error("soft_cap: cap is 0, expected a finite number above 0",
                     [&] { ops.soft_cap(context, x.view(), 0); });
  Tensor stat = f32({4});
  const Tensor targets = i32({0, 1, 2, 3});
  expect_shape_error("cross_entropy_backward: cap is -1, expected a finite number, 0 for none", [&] {
    ops.cross_entropy_backward(context, x.view(), targets.view(), 0, 8, stat.view(), stat.view(), 1, 0, -1);
  });
}

TEST_F(Checks, ElementwiseAndDropout) {
  Tensor x = f32({4, 8}), y = f32({4, 9});
  expect_shape_error("activation: y is f32 [4, 9], expected f32 [4, 8]",
                     [&] { ops.activation(context, x.view(), Activation::relu, y.view()); });
  expect_shape_error("activation_backward: dy is f32 [4, 9], expected f32 [4, 8]",
                     [&] { ops.activation_backward(context, y.view(), x.view(), Activation::relu, x.view()); });
  expect_shape_error("dropout_add: dropout rate is 1, expected 0 <= rate < 1", [&] {
    ops.dropout_add(context, x.view(), {}, {1, 0, {}, {}}, x.view());
  });
  expect_shape_error("dropout_add: dropout sample is empty, expected i64 [4]", [&] {
    ops.dropout_add(context, x.view(), {}, {0.1f, 0, {}, {}}, x.view());
  });
  expect_shape_error("dropout_backward: dx is f32 [4, 9], expected f32 [4, 8]",
                     [&] { ops.dropout_backward(context, x.view(), {}, y.view()); });
}

TEST_F(Checks, Embedding) {
  Tensor y = f32({2, 8}), table = f32({10, 8}), wrong = f32({10, 7});
  const Tensor ids = i32({3, 10}), positions = i32({0, 1}), three = i32({0, 1, 2});
  expect_shape_error("embedding: tokens is i32 [3], expected i32 [2]", [&] {
    ops.embedding(context, three.view(), positions.view(), table.view(), table.view(), y.view());
  });
  expect_shape_error("embedding: tokens_table is f32 [10, 7], expected f32 [10, 8]", [&] {
    ops.embedding(context, ids.view(), positions.view(), wrong.view(), table.view(), y.view());
  });
  expect_shape_error("embedding_backward: dtable is f32 [10, 7], expected f32 [10, 8]",
                     [&] { ops.embedding_backward(context, ids.view(), y.view(), wrong.view(), Write::overwrite); });
  expect_error(ErrorKind::data, "embedding: token of row 1 is 10, outside its table of 10 rows",
               [&] { check_ids("embedding", "token", ids.view(), 10); });
}

TEST_F(Checks, Attention) {
  Tensor qkv = f32({4, 2, 3, 8}), out = f32({4, 2, 8}), lse = f32({2, 4});
  const Tensor offsets = i32({0, 4}), short_offsets = i32({0, 3}), falling = i32({0, 3, 2, 4}), late = i32({1, 4});
  AttentionShape shape{.kv_heads = 2, .head_dim = 8, .scale = 0.3f, .offsets = offsets.view()};
  const auto call = [&](const AttentionShape& s) { ops.attention(context, qkv.view(), s, {}, out.view(), lse.view()); };
  AttentionShape wrong = shape;
  wrong.kv_heads = 3;
  expect_shape_error("attention: qkv is f32 [4, 2, 3, 8], expected f32 [4, 3, 3, 8]", [&] { call(wrong); });
  wrong = shape;
  wrong.group = 2;
  expect_shape_error("attention: qkv is f32 [4, 2, 3, 8], expected f32 [4, 2, 4, 8]", [&] { call(wrong); });
  wrong.group = 0;
  expect_shape_error("attention: 2 kv heads with 0 query heads each, of size 8, expected at least 1 of each",
                     [&] { call(wrong); });
  wrong = shape;
  wrong.scale = NAN;
  expect_shape_error("attention: scale is nan, expected a finite number above 0", [&] { call(wrong); });
  wrong.scale = -0.5f;
  expect_shape_error("attention: scale is -0.5, expected a finite number above 0", [&] { call(wrong); });
  wrong = shape;
  wrong.first_head = 65'535;
  expect_shape_error("attention: heads 65535 to 65537, expected at most 65536, the limit of dropout's counter",
                     [&] { call(wrong); });
  wrong.group = 4;
  expect_shape_error("attention: heads 65535 to 65543, expected at most 65536", [&] { call(wrong); });
  wrong = shape;
  wrong.window = -1;
  expect_shape_error("attention: window is -1, expected at least 1 key, or 0 for all", [&] { call(wrong); });
  wrong.window = 3;
  wrong.causal = false;
  expect_shape_error("attention: window is 3, expected 0 if queries also attend to later keys", [&] { call(wrong); });
  wrong = shape;
  wrong.equal_length = 3;
  expect_shape_error("attention: equal_length is 3, expected 0 or the length of 1 equal sequences with 4 rows in total",
                     [&] { call(wrong); });
  wrong = shape;
  wrong.soft_cap = -2;
  expect_shape_error("attention: soft cap is -2, expected a finite number above 0, or 0 for none",
                     [&] { call(wrong); });
  const auto check = [](const Tensor& values) { check_offsets("attention", values.view(), 4); };
  expect_shape_error("attention: offsets end at 3, expected the number of rows, 4", [&] { check(short_offsets); });
  expect_shape_error("attention: offsets decrease from 3 to 2 at sequence 1", [&] { check(falling); });
  expect_shape_error("attention: offsets begin at 1, expected 0", [&] { check(late); });
  wrong = shape;
  wrong.offsets = out.view();
  expect_shape_error("attention: offsets is f32 [4, 2, 8], expected 1 dims", [&] { call(wrong); });
  expect_shape_error("attention: lse is f32 [4, 2, 8], expected f32 [2, 4]",
                     [&] { ops.attention(context, qkv.view(), shape, {}, out.view(), out.view()); });
  expect_shape_error("attention_backward: dqkv is f32 [4, 2, 8], expected f32 [4, 2, 3, 8]", [&] {
    ops.attention_backward(context, out.view(), qkv.view(), out.view(), lse.view(), shape, {}, out.view());
  });
  const Tensor sample(DType::i64, {4}), jumping = i32({0, 1, 3, 4});
  expect_shape_error("attention: dropout position of row 2 is 3, expected 2, one after the row before in sequence 0",
                     [&] {
                       check_positions("attention", {0.1f, 1, sample.view(), jumping.view()}, offsets.view());
                     });
}

TEST_F(Checks, AttentionCached) {
  Tensor qkv = f32({4, 2, 3, 8}), out = f32({4, 2, 8}), cache = f32({1, 4, 10, 8}), wrong = f32({1, 3, 10, 8});
  const Tensor offsets = i32({0, 4}), past = i32({7});
  AttentionShape shape{.kv_heads = 2, .head_dim = 8, .scale = 0.3f, .offsets = offsets.view()};
  expect_shape_error("attention_cached: cache is f32 [1, 3, 10, 8], expected f32 [1, 4, 10, 8]",
                     [&] { ops.attention_cached(context, qkv.view(), shape, past.view(), wrong.view(), out.view()); });
  expect_shape_error("attention_cached: sequence 0 has 7 cached and 4 new positions, but its cache holds only 10",
                     [&] { check_cache(offsets.view(), past.view(), 10, 0); });
  expect_shape_error("attention_cached: sequence 0 has 7 cached and 4 new positions, but its cache holds only 10",
                     [&] { check_cache(offsets.view(), past.view(), 10, 11); });
  check_cache(offsets.view(), past.view(), 10, 10);
  shape.causal = false;
  expect_shape_error("attention_cached: shape is not causal",
                     [&] { ops.attention_cached(context, qkv.view(), shape, past.view(), cache.view(), out.view()); });
}

TEST_F(Checks, Loss) {
  Tensor logits = f32({2, 8}), stat = f32({2}), wrong = f32({3});
  const Tensor targets = i32({0, 1});
  expect_shape_error("softmax_stats: classes 0 to 9 do not match logits f32 [2, 8]", [&] {
    ops.softmax_stats(context, logits.view(), targets.view(), 0, 9, stat.view(), stat.view(), stat.view());
  });
  expect_shape_error("cross_entropy_backward: sum is f32 [3], expected f32 [2]", [&] {
    ops.cross_entropy_backward(context, logits.view(), targets.view(), 0, 8, stat.view(), wrong.view(), 1);
  });
  expect_shape_error("cross_entropy_backward: smoothing is 1.5, expected 0 to 1", [&] {
    ops.cross_entropy_backward(context, logits.view(), targets.view(), 0, 8, stat.view(), stat.view(), 1, 1.5);
  });
  expect_shape_error("cross_entropy_backward: smoothing needs rows of all classes, but the first class is 8", [&] {
    ops.cross_entropy_backward(context, logits.view(), targets.view(), 8, 8, stat.view(), stat.view(), 1, 0.1);
  });
  expect_shape_error("smooth_target: 9 classes do not match logits f32 [2, 8]",
                     [&] { ops.smooth_target(context, logits.view(), 9, 0.1, stat.view()); });
  expect_shape_error("smooth_target: target is f32 [3], expected f32 [2]",
                     [&] { ops.smooth_target(context, logits.view(), 8, 0.1, wrong.view()); });
}

TEST_F(Checks, Parameters) {
  Tensor x = f32({8}), y = f32({9}), half(DType::bf16, {8}), remainder(DType::i16, {9});
  expect_shape_error("add: y is f32 [9], expected the same number of elements as x (f32 [8])",
                     [&] { ops.add(context, x.view(), y.view()); });
  Tensor values(DType::f64, {2});
  expect_shape_error("squared_norms: x is bf16 [8], expected type f32",
                     [&] { ops.squared_norms(context, half.view(), values.view()); });
  expect_shape_error("squared_norms: values is f64 [2], expected f64 [1]",
                     [&] { ops.squared_norms(context, x.view(), values.view()); });
  expect_shape_error("zero: x is empty", [&] { ops.zero(context, {}); });
  expect_shape_error("cast: y is f32 [9], expected the same number of elements as x (bf16 [8])",
                     [&] { ops.cast(context, half.view(), y.view()); });
  expect_shape_error("adamw: remainder is i16 [9], expected i16 [8]",
                     [&] { ops.adamw(context, {}, x.view(), x.view(), x.view(), half.view(), remainder.view()); });
  expect_shape_error("adamw: weights is bf16 [8], expected f32 [8]",
                     [&] { ops.adamw(context, {}, x.view(), x.view(), x.view(), half.view(), {}); });
}

TEST(DropoutKey, DiffersByEveryInput) {
  const uint64_t base = dropout_key(1, 2, 3, 4);
  EXPECT_NE(base, dropout_key(2, 2, 3, 4));
  EXPECT_NE(base, dropout_key(1, 3, 3, 4));
  EXPECT_NE(base, dropout_key(1, 2, 4, 4));
  EXPECT_NE(base, dropout_key(1, 2, 3, 5));
}

}  // namespace
}  // namespace trireme::test
