#include "ops/cpu/highway_targets.h"
// After the choice of targets.
#include <hwy/highway.h>

#include <bit>

#include "ops/element_sum.h"
#include "tensor/f16.h"
#include "tests/ops/op_test.h"
#include "tests/support/expect_error.h"

namespace trireme::test {
namespace {

/// Runs f once per instruction set that was compiled and that the CPU (or TRIREME_ISA) allows.
template <class F>
void for_each_target(F&& f) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    f();
  }
  hwy::SetSupportedTargetsForTest(0);
}

std::vector<float> random_floats(int64_t n, uint64_t seed, double scale = 1) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(scale * normal_at(seed, i));
  return values;
}

template <class T>
View view_of(std::vector<T>& values) {
  return {values.data(), DTypeOf<T>::value, {static_cast<int64_t>(values.size())}};
}
template <class T>
ConstView view_of(const std::vector<T>& values) {
  return {values.data(), DTypeOf<T>::value, {static_cast<int64_t>(values.size())}};
}

constexpr int64_t kCounts[] = {1, 7, 48, 100003};

class Parameters : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, Parameters, every_case(), case_name);

TEST_P(Parameters, AddAddsOnce) {
  for (int64_t n : kCounts) {
    const auto x = random_floats(n, 1);
    auto y = random_floats(n, 2);
    const auto before = y;
    cpu->ops->add(cpu->context, view_of(x), view_of(y));
    for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], before[i] + x[i]);
  }
}

TEST_P(Parameters, SumPartsAddsInOrderAndRoundsOnce) {
  for (int64_t n : kCounts)
    for (int64_t parts : {1, 2, 5}) {
      const Tensor x = Tensor::random(dtype(), {parts, n}, 1);
      Tensor y(dtype(), {n}), want(DType::f64, {n});
      cpu->ops->sum_parts(cpu->context, x.view(), y.view());
      reference->ops->sum_parts(reference->context, x.wide().view(), want.view());
      expect_close(y, want, GetParam().activation(), fmt::format("{} parts of {}", parts, n));
      if (dtype() != DType::f32) continue;
      for (size_t i = 0; i < y.size(); ++i) {
        float sum = static_cast<float>(x.at(i));
        for (size_t p = 1; p < static_cast<size_t>(parts); ++p) sum += static_cast<float>(x.at(p * y.size() + i));
        ASSERT_EQ(static_cast<float>(y.at(i)), sum);
      }
    }
}

TEST_P(Parameters, ZeroClearsEveryByte) {
  for (int64_t n : kCounts) {
    Tensor x = Tensor::random(dtype(), {n}, 1);
    cpu->ops->zero(cpu->context, x.view());
    EXPECT_TRUE(x == Tensor(dtype(), {n}));
  }
}

TEST_P(Parameters, BiasBackwardEqualsTheReference) {
  for (int64_t rows : {0, 1, 7, 130})
    for (int64_t width : kWidths)
      for (Write write : {Write::overwrite, Write::add}) {
        const Tensor dy = Tensor::random(dtype(), {rows, width}, 1);
        Tensor got = Tensor::random(DType::f32, {width}, 2), want = got.wide();
        cpu->ops->bias_backward(cpu->context, dy.view(), got.view(), write);
        reference->ops->bias_backward(reference->context, dy.wide().view(), want.view(), write);
        expect_close(got, want, {2e-6, 2e-5}, fmt::format("{} x {}", rows, width));
      }
}

TEST_P(Parameters, CastWidensExactlyAndCopies) {
  for (int64_t n : kCounts) {
    const Tensor x = Tensor::random(dtype(), {n}, 1);
    Tensor wide(DType::f32, {n}), same(dtype(), {n});
    cpu->ops->cast(cpu->context, x.view(), wide.view());
    cpu->ops->cast(cpu->context, x.view(), same.view());
    EXPECT_TRUE(same == x);
    EXPECT_EQ(wide.values(), x.values());
  }
}

/// Every upper half with lower halves around the tie, so all signs, exponents, ties, infinities and NaN.
std::vector<float> rounding_cases() {
  std::vector<float> values;
  for (uint32_t high = 0; high < 0x10000; ++high)
    for (uint32_t low : {0u, 1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu})
      values.push_back(std::bit_cast<float>(high << 16 | low));
  return values;
}

TEST(Cast, RoundsEveryCaseLikeTheScalarDefinitionOnEveryInstructionSet) {
  const auto cpu = Device::cpu(2);
  const auto x = rounding_cases();
  for_each_target([&] {
    std::vector<bf16_t> y(x.size());
    cpu->ops->cast(cpu->context, view_of(x), view_of(y));
    size_t wrong = 0;
    for (size_t i = 0; i < x.size(); ++i) wrong += y[i].bits != to_bf16(x[i]).bits;
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(Parameters, CastRoundsEveryCaseLikeTheScalarDefinition) {
  const auto x = rounding_cases();
  if (dtype() == DType::bf16) {
    std::vector<bf16_t> y(x.size());
    cpu->ops->cast(cpu->context, view_of(x), view_of(y));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i].bits, to_bf16(x[i]).bits) << x[i];
  } else if (dtype() == DType::f16) {
    std::vector<f16_t> y(x.size());
    cpu->ops->cast(cpu->context, view_of(x), view_of(y));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i].bits, to_f16(x[i]).bits) << x[i];
  } else {
    std::vector<float> y(x.size());
    cpu->ops->cast(cpu->context, view_of(x), view_of(y));
    EXPECT_EQ(std::memcmp(x.data(), y.data(), view_of(x).bytes()), 0);
  }
}

/// ops.h, written out.
double scalar_squared_norm(const std::vector<float>& x) {
  double total = 0;
  for (size_t first = 0; first < x.size(); first += 65536) {
    double partials[16] = {}, sum = 0;
    for (size_t i = first; i < std::min(first + 65536, x.size()); ++i)
      partials[i % 16] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (double partial : partials) sum += partial;
    total += sum;
  }
  return total;
}

/// The values of all chunks, added in order.
double squared_norm(Device& device, ConstView x) {
  std::vector<double> values(static_cast<size_t>((x.count() + kNormChunk - 1) / kNormChunk));
  device.ops->squared_norms(device.context, x, View(std::span(values), {static_cast<int64_t>(values.size())}));
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

TEST(SquaredNorm, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  for (int64_t n : {1, 15, 16, 17, 65535, 65536, 65537, 300007}) {
    const auto x = random_floats(n, 1, 3);
    const double want = scalar_squared_norm(x);
    for (int threads : {1, 2, 3}) {
      const auto cpu = Device::cpu(threads);
      for_each_target([&] { EXPECT_EQ(squared_norm(*cpu, view_of(x)), want) << n; });
    }
  }
}

TEST(SquaredNorm, EqualsTheReferenceAndDoesNotOverflow) {
  const auto cpu = Device::cpu(2), reference = Device::reference();
  const Tensor x = Tensor::random(DType::f32, {70001}, 1, 1e30);
  EXPECT_EQ(squared_norm(*cpu, x.view()), squared_norm(*reference, x.wide().view()));
}

TEST(SquaredNorm, NanAndInfinityStay) {
  const auto cpu = Device::cpu(2);
  auto x = random_floats(70000, 1);
  x[69999] = INFINITY;
  EXPECT_EQ(squared_norm(*cpu, view_of(x)), INFINITY);
  x[3] = NAN;
  EXPECT_TRUE(std::isnan(squared_norm(*cpu, view_of(x))));
}

// ---- AdamW

constexpr AdamW kOptions{3e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.271f, 0.142625f, 0.7f};

struct AdamState {
  std::vector<float> grad, m, v, weights;

  explicit AdamState(int64_t n) {
    grad = random_floats(n, 1);
    m = random_floats(n, 2, 0.1);
    v = random_floats(n, 3, 0.1);
    for (float& value : v) value *= value;
    weights = random_floats(n, 4, 0.02);
  }
  /// The update of one element in plain C++, one rounding per operation.
  void scalar_step(const AdamW& o) {
    for (size_t i = 0; i < grad.size(); ++i) {
      const float g = o.gradient_scale * grad[i];
      m[i] = o.beta1 * m[i] + (1.0f - o.beta1) * g;
      v[i] = o.beta2 * v[i] + (1.0f - o.beta2) * (g * g);
      const float p = weights[i] - o.learning_rate * o.weight_decay * weights[i];
      weights[i] = p - o.learning_rate * (m[i] / o.correction1 / (std::sqrt(v[i] / o.correction2) + o.epsilon));
    }
  }
};

struct SplitMaster {
  std::vector<bf16_t> high;
  std::vector<int16_t> low;

  explicit SplitMaster(const std::vector<float>& master) {
    for (float value : master) {
      const auto bits = std::bit_cast<uint32_t>(value);
      high.push_back(to_bf16_master(value));
      low.push_back(static_cast<int16_t>(bits - (uint32_t{high.back().bits} << 16)));
    }
  }
  float master(size_t i) const {
    return std::bit_cast<float>((uint32_t{high[i].bits} << 16) + static_cast<uint32_t>(int32_t{low[i]}));
  }
};

// ---- sums of hashes

/// Of the f32 values at these places, one by one.
std::vector<int64_t> scalar_sums(const std::vector<float>& values, const ElementPlaces& places) {
  std::vector<int64_t> sums;
  for (size_t first = 0; first < values.size(); first += 65536) {
    uint64_t sum = 0;
    for (size_t i = first; i < std::min(first + 65536, values.size()); ++i) {
      const auto place = static_cast<uint64_t>(places.of(static_cast<int64_t>(i)));
      sum += element_term(places.key + place * kElementStride, std::bit_cast<uint32_t>(values[i]));
    }
    sums.push_back(static_cast<int64_t>(sum));
  }
  return sums;
}

std::vector<int64_t> element_sums(Device& device, ConstView x, ConstView low, const ElementPlaces& places) {
  std::vector<int64_t> sums(static_cast<size_t>((x.count() + kNormChunk - 1) / kNormChunk));
  device.ops->element_sums(device.context, x, low, places, view_of(sums));
  return sums;
}

/// A row, columns of a matrix, a box of three dims and one of four.
std::vector<ElementPlaces> some_places(int64_t n) {
  return {{.key = 7, .first = 0, .extents = {1, 1, 1, n}},
          {.key = 8, .first = 5, .extents = {1, 1, n, 1}, .strides = {0, 0, 3, 1}},
          {.key = 9, .first = 40, .extents = {1, n, 2, 3}, .strides = {0, 20, 8, 1}},
          {.key = ~uint64_t{0}, .first = 1, .extents = {n, 1, 2, 11}, .strides = {90, 50, 20, 1}}};
}

TEST(ElementPlaces, AreThoseOfRowMajorBoxes) {
  const ElementPlaces places{.first = 40, .extents = {2, 3, 2, 3}, .strides = {200, 20, 8, 1}};
  int64_t i = 0;
  for (int64_t a = 0; a < 2; ++a)
    for (int64_t b = 0; b < 3; ++b)
      for (int64_t c = 0; c < 2; ++c)
        for (int64_t d = 0; d < 3; ++d) EXPECT_EQ(places.of(i++), 40 + 200 * a + 20 * b + 8 * c + d);
  EXPECT_EQ(places.count(), i);
}

TEST(ElementSums, AreThoseOfTheDefinitionForEveryTypeOfWeights) {
  const auto reference = Device::reference();
  for (const int64_t n : {1, 31, 4099, 23000})
    for (const ElementPlaces& places : some_places(n))
      for (const int threads : {1, 3}) {
        const auto cpu = Device::cpu(threads);
        const std::vector<float> masters = random_floats(places.count(), 1);
        const SplitMaster split(masters);
        std::vector<f16_t> halves;
        std::vector<float> of_high, of_halves;
        for (size_t i = 0; i < masters.size(); ++i) {
          halves.push_back(to_f16(masters[i]));
          of_high.push_back(to_float(split.high[i]));
          of_halves.push_back(to_float(halves[i]));
        }
        const auto expect = [&](ConstView x, ConstView low, const std::vector<float>& values) {
          const std::vector<int64_t> want = scalar_sums(values, places);
          EXPECT_EQ(element_sums(*cpu, x, low, places), want) << n << " key " << places.key;
          EXPECT_EQ(element_sums(*reference, x, low, places), want) << n << " key " << places.key;
        };
        expect(view_of(masters), {}, masters);
        expect(view_of(split.high), view_of(split.low), masters);
        expect(view_of(split.high), {}, of_high);
        expect(view_of(halves), {}, of_halves);
      }
}

TEST(ElementSums, RefuseWhatDoesNotFit) {
  const auto cpu = Device::cpu(1);
  const std::vector<float> x(6);
  const std::vector<int16_t> low(6);
  EXPECT_ERROR(element_sums(*cpu, view_of(x), {}, {.extents = {1, 1, 1, 5}}), ErrorKind::shape,
               "element_sums: x is f32 [6], expected 5 elements, those of the places");
  EXPECT_ERROR(element_sums(*cpu, view_of(x), view_of(low), {.extents = {1, 1, 1, 6}}), ErrorKind::shape,
               "element_sums: x is f32 [6], expected bf16 beside remainders");
  EXPECT_ERROR(element_sums(*cpu, view_of(low), {}, {.extents = {1, 1, 1, 6}}), ErrorKind::shape,
               "element_sums: x is i16 [6], expected f32, bf16 or f16");
}

TEST(AdamWStep, HasTheBitsOfTheScalarLoopOnEveryInstructionSetAndThreadCount) {
  for (int64_t n : {1, 7, 48, 1003})
    for (int threads : {1, 2, 3}) {
      const auto cpu = Device::cpu(threads);
      AdamState want(n);
      for (int step = 0; step < 3; ++step) want.scalar_step(kOptions);
      for_each_target([&] {
        AdamState got(n);
        for (int step = 0; step < 3; ++step)
          cpu->ops->adamw(cpu->context, kOptions, view_of(got.grad), view_of(got.m), view_of(got.v),
                          view_of(got.weights), {});
        EXPECT_EQ(got.m, want.m);
        EXPECT_EQ(got.v, want.v);
        EXPECT_EQ(got.weights, want.weights);
      });
    }
}

TEST(AdamWStep, SplitWeightsAreTheF32MasterExactly) {
  for (int64_t n : {1, 7, 48, 1003}) {
    const auto cpu = Device::cpu(2);
    AdamState want(n);
    for (int step = 0; step < 3; ++step) want.scalar_step(kOptions);
    for_each_target([&] {
      AdamState got(n);
      SplitMaster split(got.weights);
      for (int step = 0; step < 3; ++step)
        cpu->ops->adamw(cpu->context, kOptions, view_of(got.grad), view_of(got.m), view_of(got.v), view_of(split.high),
                        view_of(split.low));
      for (size_t i = 0; i < got.m.size(); ++i) {
        ASSERT_EQ(split.master(i), want.weights[i]);
        ASSERT_EQ(split.high[i].bits, to_bf16_master(want.weights[i]).bits);
      }
      EXPECT_EQ(got.m, want.m);
      EXPECT_EQ(got.v, want.v);
    });
  }
}

TEST(AdamWStep, F16WeightsAreTheRoundedF32Masters) {
  const auto cpu = Device::cpu(2);
  const auto cases = tested_cases();
  if (std::none_of(cases.begin(), cases.end(), [](const Case& c) { return c.dtype == DType::f16; })) {
    AdamState got(7);
    std::vector<f16_t> weights(7);
    EXPECT_ERROR(cpu->ops->adamw(cpu->context, kOptions, view_of(got.grad), view_of(got.m), view_of(got.v),
                                 view_of(weights), view_of(got.weights)),
                 ErrorKind::shape, "adamw: remainder is given, but this backend has no f16 weights");
    return;
  }
  for (int64_t n : {1, 7, 48, 1003}) {
    AdamState want(n), got(n);
    std::vector<f16_t> weights(static_cast<size_t>(n));
    for (int step = 0; step < 3; ++step) {
      want.scalar_step(kOptions);
      cpu->ops->adamw(cpu->context, kOptions, view_of(got.grad), view_of(got.m), view_of(got.v), view_of(weights),
                      view_of(got.weights));
    }
    EXPECT_EQ(got.m, want.m);
    EXPECT_EQ(got.v, want.v);
    EXPECT_EQ(got.weights, want.weights);
    for (size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(weights[i].bits, to_f16(want.weights[i]).bits);
  }
}

TEST(AdamWStep, EveryTieOfTheSplitSurvivesAStepOfRateZero) {
  const auto cpu = Device::cpu(2);
  std::vector<float> masters;
  for (float value : rounding_cases())
    if (std::isfinite(value) && std::isfinite(to_float(to_bf16_master(value))) && value != 0) masters.push_back(value);
  masters.push_back(0);  // -0 becomes 0: -0 - -0 = 0
  AdamW still = kOptions;
  still.learning_rate = 0;
  for_each_target([&] {
    SplitMaster split(masters);
    std::vector<float> grad(masters.size(), 1), m(masters.size()), v(masters.size());
    cpu->ops->adamw(cpu->context, still, view_of(grad), view_of(m), view_of(v), view_of(split.high),
                    view_of(split.low));
    size_t wrong = 0;
    for (size_t i = 0; i < masters.size(); ++i)
      wrong += std::bit_cast<uint32_t>(split.master(i)) != std::bit_cast<uint32_t>(masters[i]) ||
               split.high[i].bits != to_bf16_master(masters[i]).bits;
    EXPECT_EQ(wrong, 0);
  });
}

TEST(AdamWStep, EqualsTheReference) {
  const auto cpu = Device::cpu(2), reference = Device::reference();
  AdamState got(1003);
  const auto wide = [](const std::vector<float>& v) { return std::vector<double>(v.begin(), v.end()); };
  auto grad = wide(got.grad), m = wide(got.m), v = wide(got.v), weights = wide(got.weights);
  for (int step = 0; step < 3; ++step) {
    cpu->ops->adamw(cpu->context, kOptions, view_of(got.grad), view_of(got.m), view_of(got.v), view_of(got.weights),
                    {});
    reference->ops->adamw(reference->context, kOptions, view_of(grad), view_of(m), view_of(v), view_of(weights), {});
  }
  for (size_t i = 0; i < grad.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(got.m[i]), m[i], 1e-6 * (1 + std::abs(m[i])));
    EXPECT_NEAR(static_cast<double>(got.v[i]), v[i], 1e-6 * (1 + std::abs(v[i])));
    EXPECT_NEAR(static_cast<double>(got.weights[i]), weights[i], 1e-8 + 1e-6 * std::abs(weights[i]));
  }
}

TEST(AdamWReference, FirstStepMovesEachWeightByTheLearningRate) {
  const auto device = Device::reference();
  std::vector<double> grad{2, -3}, m(2), v(2), weights{1, 1};
  const AdamW first{0.01f, 0.9f, 0.95f, 0, 0.5f, 0.1f, 0.05f, 1};
  device->ops->adamw(device->context, first, view_of(grad), view_of(m), view_of(v), view_of(weights), {});
  EXPECT_NEAR(weights[0], 1 - 0.01 * 0.5 - 0.01, 1e-7);
  EXPECT_NEAR(weights[1], 1 - 0.01 * 0.5 + 0.01, 1e-7);
}

}  // namespace
}  // namespace trireme::test
