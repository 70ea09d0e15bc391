#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

// ---- gates of attention's outputs

class Gates : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Gates, every_case(), case_name);

TEST_P(Gates, SplitVectorsLieWhereAttentionReadsThemAndJoinIsTheInverse) {
  constexpr int64_t kRows = 3, kKeyHeads = 2, kGroup = 2, kDim = 5;
  const Tensor x = Tensor::random(dtype(), {kRows, kKeyHeads, 2 * kGroup + 2, kDim}, 1);
  for (Device* device : {cpu.get(), reference.get()}) {
    const Tensor from = device == cpu.get() ? x : x.wide();
    Tensor qkv(from.dtype(), {kRows, kKeyHeads, kGroup + 2, kDim}), gates(from.dtype(), {kRows, 4, kDim}),
        again(from.dtype(), {kRows, kKeyHeads, 2 * kGroup + 2, kDim});
    device->ops->split_gates(device->context, from.view(), qkv.view(), gates.view());
    for (size_t row = 0; row < kRows; ++row)
      for (size_t g = 0; g < kKeyHeads; ++g) {
        const auto vector = [&](size_t part) { return from.at(((row * kKeyHeads + g) * 6 + part) * kDim + 1); };
        const auto of_qkv = [&](size_t part) { return qkv.at(((row * kKeyHeads + g) * 4 + part) * kDim + 1); };
        const auto gate = [&](size_t head) { return gates.at((row * 4 + g * kGroup + head) * kDim + 1); };
        EXPECT_EQ(of_qkv(0), vector(0));
        EXPECT_EQ(gate(0), vector(1));
        EXPECT_EQ(of_qkv(1), vector(2));
        EXPECT_EQ(gate(1), vector(3));
        EXPECT_EQ(of_qkv(2), vector(4));
        EXPECT_EQ(of_qkv(3), vector(5));
      }
    device->ops->join_gates(device->context, qkv.view(), gates.view(), again.view());
    EXPECT_TRUE(again == from);
  }
}

TEST_P(Gates, SigmoidGateEqualsTheReference) {
  for (const int64_t width : kWidths) {
    const Tensor x = Tensor::random(dtype(), {5, width}, 1), gates = Tensor::random(dtype(), {5, width}, 2, 4),
                 dy = Tensor::random(dtype(), {5, width}, 3);
    Tensor y(dtype(), {5, width}), dx = dy, dgates = y;
    Tensor wide_y = y.wide(), wide_dx = dy.wide(), wide_dgates = wide_y;
    cpu->ops->sigmoid_gate(cpu->context, x.view(), gates.view(), y.view());
    reference->ops->sigmoid_gate(reference->context, x.wide().view(), gates.wide().view(), wide_y.view());
    cpu->ops->sigmoid_gate_backward(cpu->context, dx.view(), x.view(), gates.view(), dx.view(), dgates.view());
    reference->ops->sigmoid_gate_backward(reference->context, wide_dx.view(), x.wide().view(), gates.wide().view(),
                                          wide_dx.view(), wide_dgates.view());
    expect_close(y, wide_y, GetParam().activation(), "y");
    expect_close(dx, wide_dx, GetParam().activation(), "dx");
    expect_close(dgates, wide_dgates, GetParam().activation(), "dgates");
  }
}

TEST(GatesReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  const Tensor x = Tensor::random(DType::f64, {2, 5}, 1), gates = Tensor::random(DType::f64, {2, 5}, 2),
               dy = Tensor::random(DType::f64, {2, 5}, 3);
  Tensor dx(DType::f64, {2, 5}), dgates = dx;
  device->ops->sigmoid_gate_backward(device->context, dy.view(), x.view(), gates.view(), dx.view(), dgates.view());
  const auto loss = [&](const Tensor& of_x, const Tensor& of_gates) {
    Tensor y(DType::f64, {2, 5});
    device->ops->sigmoid_gate(device->context, of_x.view(), of_gates.view(), y.view());
    return dot(y, dy);
  };
  expect_gradient([&](const Tensor& moved) { return loss(moved, gates); }, x, dx, "dx");
  expect_gradient([&](const Tensor& moved) { return loss(x, moved); }, gates, dgates, "dgates");
}

// ---- norm with a gate

struct GatedNorm {
  int64_t column;
  Tensor x, gates, w, y, dy, dx, dgates, dw;

  GatedNorm(DType a, int64_t rows, int64_t groups, int64_t group, int64_t size, int64_t column_ = 3) : column(column_) {
    const Shape all{rows, groups * group, size}, more{rows, groups, column + group * size + 2};
    x = Tensor::random(a, all, 1, 1.5, 0.3);
    gates = Tensor::random(a, more, 2, 2);
    w = Tensor::random(a, {size}, 3, 0.2, 1);
    dy = Tensor::random(a, all, 4);
    y = dx = Tensor(a, all);
    dgates = Tensor::random(a, more, 5);
    dw = Tensor::random(a == DType::f64 ? a : DType::f32, {size}, 6);
  }
  GatedNorm wide() const {
    GatedNorm n = *this;
    for (Tensor* t : {&n.x, &n.gates, &n.w, &n.y, &n.dy, &n.dx, &n.dgates, &n.dw}) *t = t->wide();
    return n;
  }
  void forward(Device& d) { d.ops->gated_norm(d.context, x.view(), gates.view(), column, w.view(), 1e-6f, y.view()); }
  void backward(Device& d, Write write) {
    d.ops->gated_norm_backward(d.context, dy.view(), x.view(), gates.view(), column, w.view(), 1e-6f, dx.view(),
                               dgates.view(), dw.view(), write);
  }
};

TEST_P(Gates, GatedNormEqualsTheReference) {
  for (const int64_t rows : kRows)
    for (const int64_t size : {1, 7, 128})
      for (const Write write : {Write::overwrite, Write::add}) {
        GatedNorm got(dtype(), rows, 2, 3, size);
        GatedNorm want = got.wide();
        got.forward(*cpu);
        want.forward(*reference);
        got.backward(*cpu, write);
        want.backward(*reference, write);
        const auto what = fmt::format("rows {} size {}", rows, size);
        expect_close(got.y, want.y, GetParam().activation(4), "y, " + what);
        expect_close(got.dx, want.dx, GetParam().activation(size == 1 ? 400 : 16), "dx, " + what);
        expect_close(got.dgates, want.dgates, GetParam().activation(4), "dgates, " + what);
        expect_close(got.dw, want.dw, {2e-5, 4e-5}, "dw, " + what);
      }
}

TEST(GatesReference, BackwardOfTheGatedNormEqualsFiniteDifferences) {
  const auto device = Device::reference();
  GatedNorm n(DType::f64, 2, 2, 2, 3);
  for (size_t i = 0; i < n.dgates.size(); ++i) n.dgates.set(i, 0);
  n.backward(*device, Write::overwrite);
  const auto loss_by = [&](Tensor GatedNorm::*member) {
    return [&device, &n, member](const Tensor& moved) {
      GatedNorm other = n;
      other.*member = moved;
      other.forward(*device);
      return dot(other.y, other.dy);
    };
  };
  expect_gradient(loss_by(&GatedNorm::x), n.x, n.dx, "dx");
  expect_gradient(loss_by(&GatedNorm::gates), n.gates, n.dgates, "dgates");
  expect_gradient(loss_by(&GatedNorm::w), n.w, n.dw, "dw");
}

// ---- short convolutions

struct Convolution {
  std::vector<int32_t> offsets{0};
  Tensor x, w, y, dy, dx, dw;
  bool silu;

  Convolution(DType a, const std::vector<int32_t>& lengths, int64_t channels, int64_t taps, bool with_silu)
      : silu(with_silu) {
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    const int64_t rows = offsets.back();
    x = Tensor::random(a, {rows, 2, channels + 3}, 1);
    w = Tensor::random(a, {2 * channels, 1, taps}, 2);
    dy = Tensor::random(a, {rows, 2, channels}, 3);
    y = Tensor(a, {rows, 2, channels});
    dx = Tensor::random(a, {rows, 2, channels + 3}, 4);
    dw = Tensor::random(a == DType::f64 ? a : DType::f32, {2 * channels, 1, taps}, 5);
  }
  Convolution wide() const {
    Convolution c = *this;
    for (Tensor* t : {&c.x, &c.w, &c.y, &c.dy, &c.dx, &c.dw}) *t = t->wide();
    return c;
  }
  ConstView offsets_view() const { return {offsets.data(), DType::i32, {std::ssize(offsets)}}; }
  void forward(Device& d) { d.ops->short_convolution(d.context, x.view(), w.view(), offsets_view(), silu, y.view()); }
  void backward(Device& d, Write write) {
    d.ops->short_convolution_backward(d.context, dy.view(), x.view(), w.view(), offsets_view(), silu, dx.view(),
                                      dw.view(), write);
  }
};

TEST_P(Gates, ShortConvolutionsEqualTheReferenceOverBordersOfSequences) {
  for (const int64_t channels : {1, 19, 64})
    for (const int64_t taps : {1, 3, 4})
      for (const bool silu : {false, true}) {
        Convolution got(dtype(), {1, 9, 0, 2, 31}, channels, taps, silu);
        Convolution want = got.wide();
        got.forward(*cpu);
        want.forward(*reference);
        got.backward(*cpu, Write::add);
        want.backward(*reference, Write::add);
        const auto what = fmt::format("{} channels, {} taps, silu {}", channels, taps, silu);
        expect_close(got.y, want.y, GetParam().activation(4), "y, " + what);
        expect_close(got.dx, want.dx, GetParam().activation(8), "dx, " + what);
        // In bf16 silu has its shorter functions, as every activation.
        const double sums = dtype() == DType::bf16 ? 1e-3 : 2e-5;
        expect_close(got.dw, want.dw, {sums, sums}, "dw, " + what);
      }
}

TEST_P(Gates, ShortConvolutionsOfGenerationContinueTheirRows) {
  for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{1, 1, 1, 8}, {2, 9}, {5, 1, 5}}) {
    Convolution whole(dtype(), {11}, 19, 4, true);
    whole.forward(*cpu);
    for (Device* device : {cpu.get(), reference.get()}) {
      Convolution parts = device == cpu.get() ? whole : whole.wide();
      Tensor window = Tensor::random(parts.x.dtype(), {1, 3, 2 * 19}, 6);  // not read where nothing is past
      int32_t past = 0;
      for (const int32_t length : lengths) {
        const std::vector<int32_t> offsets{0, length};
        device->ops->short_convolution_cached(device->context, parts.x.view().rows_slice(past, length), parts.w.view(),
                                              ConstView(offsets.data(), DType::i32, {2}), true,
                                              ConstView(&past, DType::i32, {1}), window.view(),
                                              parts.y.view().rows_slice(past, length));
        past += length;
      }
      expect_close(parts.y, whole.y, GetParam().activation(4), "y");
    }
  }
}

TEST(GatesReference, BackwardOfShortConvolutionsEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (const bool silu : {false, true}) {
    Convolution c(DType::f64, {1, 5, 3}, 2, 4, silu);
    for (size_t i = 0; i < c.dx.size(); ++i) c.dx.set(i, 0);
    c.backward(*device, Write::overwrite);
    const auto loss_by = [&](Tensor Convolution::*member) {
      return [&device, &c, member](const Tensor& moved) {
        Convolution other = c;
        other.*member = moved;
        other.forward(*device);
        return dot(other.y, other.dy);
      };
    };
    expect_gradient(loss_by(&Convolution::x), c.x, c.dx, "dx");
    expect_gradient(loss_by(&Convolution::w), c.w, c.dw, "dw");
  }
}

}  // namespace
}  // namespace trireme::test
