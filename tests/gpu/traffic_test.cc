// How often the operators of src/cuda read and write their tensors: the executor counts the bytes of every access. One
// pass over memory is what their contracts state; weights and statistics, which stay in caches, are not counted.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "tests/gpu/plain_products.h"
#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

constexpr int64_t kRows = 64, kWidth = 256;

class Traffic : public testing::TestWithParam<DType> {
 protected:
  Tensor tensor(uint64_t seed) const { return Tensor::random(GetParam(), {kRows, kWidth}, seed); }
  Tensor row(uint64_t seed) const { return Tensor::random(GetParam(), {kWidth}, seed); }
  static Tensor f32(Shape shape) { return Tensor(DType::f32, shape); }

  struct Passes {
    ConstView tensor;
    double expected;  ///< bytes that are read and written, in multiples of the tensor
  };
  void expect(const char* name, const std::vector<Passes>& of, const std::function<void()>& call) {
    std::vector<gpu::host::Watched> watched;
    for (const Passes& p : of) {
      const auto* first = static_cast<const std::byte*>(p.tensor.data());
      watched.push_back({first, first + p.tensor.bytes(), 0});
    }
    gpu::host::watch(&watched);
    call();
    gpu::host::watch(nullptr);
    for (size_t i = 0; i < of.size(); ++i)
      EXPECT_EQ(static_cast<double>(watched[i].bytes), of[i].expected * static_cast<double>(of[i].tensor.bytes()))
          << name << ", tensor " << i;
  }

  CudaOps ops_{host_device(), make_plain_products()};
  Arena scratch_{size_t{16} << 20};
  Context context_{.scratch = &scratch_};
};
INSTANTIATE_TEST_SUITE_P(Types, Traffic, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(Traffic, ElementwiseOperatorsReadAndWriteOnce) {
  Tensor x = tensor(1), y = tensor(2), z = tensor(3);
  for (const Activation f : {Activation::gelu_tanh, Activation::gelu_erf, Activation::relu, Activation::silu}) {
    expect("activation", {{x.view(), 1}, {y.view(), 1}}, [&] { ops_.activation(context_, x.view(), f, y.view()); });
    expect("activation_backward", {{x.view(), 1}, {y.view(), 2}},
           [&] { ops_.activation_backward(context_, y.view(), x.view(), f, y.view()); });
  }
  Tensor pairs = Tensor::random(GetParam(), {kRows, 2 * kWidth}, 4);
  expect("gated_activation", {{pairs.view(), 1}, {y.view(), 1}},
         [&] { ops_.gated_activation(context_, pairs.view(), Activation::silu, y.view()); });
  expect("gated_activation_backward", {{pairs.view(), 2}, {y.view(), 1}},
         [&] { ops_.gated_activation_backward(context_, y.view(), pairs.view(), Activation::silu, pairs.view()); });
  expect("dropout_add", {{x.view(), 1}, {y.view(), 1}, {z.view(), 1}},
         [&] { ops_.dropout_add(context_, x.view(), y.view(), {}, z.view()); });
  expect("soft_cap", {{x.view(), 2}}, [&] { ops_.soft_cap(context_, x.view(), 30); });
  expect("zero", {{x.view(), 1}}, [&] { ops_.zero(context_, x.view()); });
  expect("cast", {{x.view(), 1}, {y.view(), 1}}, [&] { ops_.cast(context_, x.view(), y.view()); });
}

TEST_P(Traffic, NormsReadARowOnce) {
  Tensor x = tensor(1), y = tensor(2), dx = tensor(3), w = row(4), b = row(5);
  Tensor mean = f32({kRows}), rstd = f32({kRows}), dw = f32({kWidth}), db = f32({kWidth});
  expect("layer_norm", {{x.view(), 1}, {y.view(), 1}},
         [&] { ops_.layer_norm(context_, x.view(), w.view(), b.view(), 1e-5f, y.view(), mean.view(), rstd.view()); });
  expect("layer_norm_backward", {{y.view(), 1}, {x.view(), 1}, {dx.view(), 2}}, [&] {
    ops_.layer_norm_backward(context_, y.view(), x.view(), w.view(), mean.view(), rstd.view(), dx.view(), dw.view(),
                             db.view(), Write::add);
  });
  expect("rms_norm", {{x.view(), 1}, {y.view(), 1}},
         [&] { ops_.rms_norm(context_, x.view(), w.view(), 0, 1e-5f, y.view(), rstd.view()); });
  expect("rms_norm_backward", {{y.view(), 1}, {x.view(), 1}, {dx.view(), 2}}, [&] {
    ops_.rms_norm_backward(context_, y.view(), x.view(), w.view(), 0, rstd.view(), dx.view(), dw.view(), Write::add);
  });
}

TEST_P(Traffic, FusionsReadAndWriteEachTensorOnce) {
  Tensor x = tensor(1), residual = tensor(2), sum = tensor(3), y = tensor(4), w = row(5), b = row(6);
  Tensor mean = f32({kRows}), rstd = f32({kRows}), db = f32({kWidth});
  for (const bool centered : {true, false}) {
    RowNorm norm{.w = std::as_const(w).view(), .centered = centered};
    if (centered) norm.b = std::as_const(b).view();
    expect("dropout_add_norm", {{x.view(), 1}, {residual.view(), 1}, {sum.view(), 1}, {y.view(), 1}}, [&] {
      ops_.dropout_add_norm(context_, x.view(), residual.view(), {}, 1, sum.view(), norm, y.view(),
                            centered ? mean.view() : View(), rstd.view());
    });
  }
  expect("activation_bias_backward", {{x.view(), 1}, {y.view(), 2}}, [&] {
    ops_.activation_bias_backward(context_, y.view(), x.view(), Activation::gelu_tanh, y.view(), db.view(),
                                  Write::overwrite);
  });
}

TEST_P(Traffic, NormsOfQueriesAndKeysReadThemOnce) {
  constexpr int64_t kSize = 64;
  const Shape shape{kRows, 1, kWidth / kSize, kSize};
  const double turned = 3.0 / 4;  // two queries and a key of a group, without its value
  Tensor x = tensor(1), y = tensor(2), gain = Tensor::random(GetParam(), {kSize}, 3), squares = f32({kRows, 3});
  Tensor dq = f32({kSize}), dk = f32({kSize});
  const View qkv = x.view().reshape(shape), to = y.view().reshape(shape);
  const QueryKeyNorm norm{
      .q = std::as_const(gain).view(), .k = std::as_const(gain).view(), .q_count = kSize, .k_count = kSize};
  expect("query_key_squares", {{qkv, turned}}, [&] { ops_.query_key_squares(context_, qkv, norm, squares.view()); });
  expect("query_key_norm", {{qkv, 1}, {to, 1}}, [&] { ops_.query_key_norm(context_, qkv, norm, squares.view(), to); });
  expect("query_key_products", {{qkv, turned}, {to, turned}},
         [&] { ops_.query_key_products(context_, to, qkv, norm, squares.view()); });
  expect("query_key_norm_backward", {{qkv, turned}, {to, 2 * turned}}, [&] {
    ops_.query_key_norm_backward(context_, to, qkv, norm, squares.view(), squares.view(), dq.view(), dk.view(),
                                 Write::overwrite);
  });
}

TEST_P(Traffic, SumsOverRowsReadOnce) {
  const Tensor dy = tensor(1);
  Tensor db = f32({kWidth});
  expect("bias_backward", {{dy.view(), 1}},
         [&] { ops_.bias_backward(context_, dy.view(), db.view(), Write::overwrite); });
}

TEST_P(Traffic, ScalingOfColumnsReadsOnceAndWritesOnce) {
  const Tensor dy = tensor(1), x = tensor(2), factors = f32({kWidth});
  Tensor y = tensor(3), products = f32({kWidth});
  expect("scale_columns", {{x.view(), 1}, {y.view(), 1}},
         [&] { ops_.scale_columns(context_, x.view(), factors.view(), {}, y.view()); });
  expect("scale_columns_backward", {{dy.view(), 1}, {x.view(), 1}, {y.view(), 1}}, [&] {
    ops_.scale_columns_backward(context_, dy.view(), x.view(), factors.view(), y.view(), products.view());
  });
}

TEST_P(Traffic, LossesReadLogitsOnceAndWriteThemOnce) {
  Tensor logits = tensor(1), max = f32({kRows}), sum = f32({kRows}), target = f32({kRows});
  const Tensor targets(DType::i32, {kRows});
  // And the logit of each row's target once more.
  expect("softmax_stats", {{logits.view(), 1 + 1.0 / kWidth}}, [&] {
    ops_.softmax_stats(context_, logits.view(), targets.view(), 0, kWidth, max.view(), sum.view(), target.view());
  });
  expect("cross_entropy_backward", {{logits.view(), 2}}, [&] {
    ops_.cross_entropy_backward(context_, logits.view(), targets.view(), 0, kWidth, max.view(), sum.view(), 1);
  });
}

TEST_P(Traffic, AdamWReadsAndWritesItsStateOnce) {
  constexpr int64_t kCount = kRows * kWidth;
  const Tensor grad = Tensor::random(DType::f32, {kCount}, 1);
  Tensor m = f32({kCount}), v = f32({kCount}), weights(GetParam(), {kCount});
  // Of bf16 the lower halves of the masters, which f16 has beside it.
  Tensor remainder(GetParam() == DType::bf16 ? DType::i16 : DType::f32, {kCount});
  const bool split = GetParam() != DType::f32;
  const double of_weights = GetParam() == DType::f16 ? 1 : 2;  // f16 is only written
  expect("adamw",
         {{grad.view(), 1},
          {m.view(), 2},
          {v.view(), 2},
          {weights.view(), of_weights},
          {remainder.view(), split ? 2.0 : 0.0}},
         [&] {
           ops_.adamw(context_, {}, grad.view(), m.view(), v.view(), weights.view(), split ? remainder.view() : View());
         });
}

}  // namespace
}  // namespace trireme::test
