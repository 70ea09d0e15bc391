#include <cmath>

#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

struct Size {
  int64_t rows, kv_heads, group, head_dim;
};
constexpr Size kSizes[] = {{0, 2, 1, 8}, {1, 1, 1, 7}, {5, 2, 3, 8}, {9, 3, 2, 64}, {37, 1, 4, 129}, {6, 4, 1, 96}};

struct Norm {
  Tensor qkv, q, k, dqkv, squares, products, dq, dk, y;
  QueryKeyNorm values = {};

  Norm(DType a, const Size& size, bool whole, float offset) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    const auto& [rows, kv_heads, group, head_dim] = size;
    const Shape shape{rows, kv_heads, group + 2, head_dim}, statistics{rows, whole ? 2 : kv_heads * (group + 1)};
    const int64_t q_gains = whole ? kv_heads * group * head_dim : head_dim,
                  k_gains = whole ? kv_heads * head_dim : head_dim;
    qkv = Tensor::random(a, shape, 1, 1.5);
    q = Tensor::random(a, {q_gains}, 2, 0.3, 1 - static_cast<double>(offset));
    k = Tensor::random(a, {k_gains}, 3, 0.3, 1 - static_cast<double>(offset));
    dqkv = Tensor::random(a, shape, 4);
    y = Tensor(a, shape);
    squares = products = Tensor(s, statistics);
    dq = Tensor::random(s, {q_gains}, 5);
    dk = Tensor::random(s, {k_gains}, 6);
    values = {.whole = whole, .q_count = q_gains, .k_count = k_gains, .offset = offset};
  }
  Norm wide() const {
    Norm n = *this;
    for (Tensor* t : {&n.qkv, &n.q, &n.k, &n.dqkv, &n.squares, &n.products, &n.dq, &n.dk, &n.y}) *t = t->wide();
    return n;
  }
  QueryKeyNorm norm() const {
    QueryKeyNorm n = values;
    n.q = q.view(), n.k = k.view();
    return n;
  }
  void forward(Device& d) {
    d.ops->query_key_squares(d.context, qkv.view(), norm(), squares.view());
    d.ops->query_key_norm(d.context, qkv.view(), norm(), squares.view(), y.view());
  }
  void backward(Device& d, Write write) {
    d.ops->query_key_products(d.context, dqkv.view(), qkv.view(), norm(), products.view());
    d.ops->query_key_norm_backward(d.context, dqkv.view(), qkv.view(), norm(), squares.view(), products.view(),
                                   dq.view(), dk.view(), write);
  }
};

class QueryKeyNorms : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, QueryKeyNorms, every_case(), case_name);

template <class F>
void for_every_norm(DType dtype, F&& check) {
  for (const Size& size : kSizes)
    for (bool whole : {false, true})
      for (float offset : {0.0f, 1.0f})
        check(Norm(dtype, size, whole, offset), fmt::format("{} rows, {} x {} x {}, whole {}, offset {}", size.rows,
                                                            size.kv_heads, size.group, size.head_dim, whole, offset));
}

TEST_P(QueryKeyNorms, ForwardEqualsTheReference) {
  for_every_norm(dtype(), [&](Norm got, const std::string& what) {
    Norm want = got.wide();
    got.forward(*cpu);
    want.forward(*reference);
    expect_close(got.squares, want.squares, {2e-6, 0}, "squares, " + what);
    expect_close(got.y, want.y, GetParam().activation(4), "y, " + what);
  });
}

TEST_P(QueryKeyNorms, BackwardOfAFrozenGainLeavesItsGradientAlone) {
  for (Device* device : {cpu.get(), reference.get()}) {
    for (const bool whole : {false, true}) {
      Norm got(device == cpu.get() ? dtype() : DType::f64, {9, 3, 2, 64}, whole, 0);
      got.forward(*device);
      Norm all = got, none = got;
      const Norm before = got;
      const auto backward = [&](Norm& n, View dq, View dk) {
        device->ops->query_key_products(device->context, n.dqkv.view(), n.qkv.view(), n.norm(), n.products.view());
        device->ops->query_key_norm_backward(device->context, n.dqkv.view(), n.qkv.view(), n.norm(), n.squares.view(),
                                             n.products.view(), dq, dk, Write::overwrite);
      };
      backward(got, {}, got.dk.view());
      backward(none, {}, {});
      all.backward(*device, Write::overwrite);
      EXPECT_TRUE(got.dq == before.dq && none.dq == before.dq && none.dk == before.dk);
      EXPECT_TRUE(got.dk == all.dk);
      EXPECT_TRUE(got.dqkv == all.dqkv && none.dqkv == all.dqkv);
    }
  }
}

TEST_P(QueryKeyNorms, BackwardEqualsTheReference) {
  for (Write write : {Write::overwrite, Write::add})
    for_every_norm(dtype(), [&](Norm got, const std::string& what) {
      got.forward(*cpu);
      Norm want = got.wide();
      got.backward(*cpu, write);
      want.backward(*reference, write);
      // Sums of up to 516 products, some of which cancel.
      expect_close(got.products, want.products, {4e-6, 2e-4}, "products, " + what);
      expect_close(got.dqkv, want.dqkv, GetParam().activation(8), "dqkv, " + what);
      expect_close(got.dq, want.dq, {2e-6, 4e-5}, "dq, " + what);
      expect_close(got.dk, want.dk, {2e-6, 4e-5}, "dk, " + what);
    });
}

TEST_P(QueryKeyNorms, ValuesStayAndTwoRunsGiveTheSameBits) {
  for (bool whole : {false, true}) {
    Norm first(dtype(), {9, 2, 3, 64}, whole, 0);
    const Tensor dqkv = first.dqkv;
    first.forward(*cpu);
    Norm second = first;
    first.backward(*cpu, Write::add);
    second.backward(*cpu, Write::add);
    EXPECT_TRUE(first.dqkv == second.dqkv && first.dq == second.dq && first.dk == second.dk);
    for (size_t row = 0; row < 9; ++row)
      for (size_t head = 0; head < 2; ++head)
        for (size_t i = 0; i < 64; ++i) {
          const size_t value = ((row * 2 + head) * 5 + 4) * 64 + i;
          ASSERT_EQ(first.y.at(value), first.qkv.at(value));
          ASSERT_EQ(first.dqkv.at(value), dqkv.at(value));
        }
  }
}

TEST(QueryKeyNormReference, OfEachHeadIsTheRmsNormOfItsVectors) {
  const auto device = Device::reference();
  Norm n(DType::f64, {5, 2, 3, 8}, false, 1);
  n.forward(*device);
  for (size_t row = 0; row < 5; ++row)
    for (size_t head = 0; head < 2; ++head)
      for (size_t part = 0; part < 4; ++part) {
        const size_t at = ((row * 2 + head) * 5 + part) * 8;
        Tensor x(DType::f64, {1, 8}), y = x, rstd(DType::f64, {1});
        for (size_t i = 0; i < 8; ++i) x.set(i, n.qkv.at(at + i));
        device->ops->rms_norm(device->context, x.view(), part < 3 ? n.q.view() : n.k.view(), 1, n.values.epsilon,
                              y.view(), rstd.view());
        for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(n.y.at(at + i), y.at(i), 1e-14);
      }
}

TEST(QueryKeyNormReference, OfTheProjectionIsTheRmsNormOfAllQueriesAndOfAllKeys) {
  const auto device = Device::reference();
  constexpr size_t kHeads = 6, kKvHeads = 2, kGroup = 3, kDim = 8;
  Norm n(DType::f64, {1, kKvHeads, kGroup, kDim}, true, 0);
  n.forward(*device);
  Tensor q(DType::f64, {1, kHeads * kDim}), k(DType::f64, {1, kKvHeads * kDim}), rstd(DType::f64, {1});
  const auto place = [](size_t head, bool key) {
    return key ? (head * (kGroup + 2) + kGroup) * kDim : (head / kGroup * (kGroup + 2) + head % kGroup) * kDim;
  };
  for (size_t i = 0; i < q.size(); ++i) q.set(i, n.qkv.at(place(i / kDim, false) + i % kDim));
  for (size_t i = 0; i < k.size(); ++i) k.set(i, n.qkv.at(place(i / kDim, true) + i % kDim));
  Tensor y = q, of_keys = k;
  const auto normalise = [&](const Tensor& x, const Tensor& gain, Tensor& to) {
    device->ops->rms_norm(device->context, x.view(), gain.view(), 0, n.values.epsilon, to.view(), rstd.view());
  };
  normalise(q, n.q, y);
  normalise(k, n.k, of_keys);
  for (size_t i = 0; i < q.size(); ++i) EXPECT_NEAR(n.y.at(place(i / kDim, false) + i % kDim), y.at(i), 1e-14);
  for (size_t i = 0; i < k.size(); ++i) EXPECT_NEAR(n.y.at(place(i / kDim, true) + i % kDim), of_keys.at(i), 1e-14);
}

TEST(QueryKeyNormReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  for (bool whole : {false, true})
    for (float offset : {0.0f, 1.0f}) {
      Norm n(DType::f64, {3, 2, 2, 5}, whole, offset);
      n.q.set(1, -static_cast<double>(offset));  // a gain of 0
      n.forward(*device);
      const Tensor dy = n.dqkv;
      n.backward(*device, Write::overwrite);
      const auto loss = [&](Tensor Norm::*member) {
        return [&, member](const Tensor& value) {
          Norm moved = n;
          moved.*member = value;
          moved.forward(*device);
          return dot(moved.y, dy);
        };
      };
      const auto what = fmt::format("whole {}, offset {}", whole, offset);
      expect_gradient(loss(&Norm::qkv), n.qkv, n.dqkv, "qkv, " + what);
      expect_gradient(loss(&Norm::q), n.q, n.dq, "q, " + what);
      expect_gradient(loss(&Norm::k), n.k, n.dk, "k, " + what);
    }
}

}  // namespace
}  // namespace trireme::test
