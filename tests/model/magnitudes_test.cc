// Adapters whose linears have magnitudes (DoRA): backward takes the lengths of rows as constants.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/adapters.h"
#include "model/stage.h"
#include "tests/model/model_fixture.h"
#include "tests/model/spec_cases.h"

namespace trireme {
namespace {

constexpr Stage::Step kStep{.seed = 3, .step = 5, .dropout = false};

Spec spec_with(const char* adapters, bool llama) {
  Spec spec = small_spec();
  if (llama) make_llama(spec), spec.tied_head = false;
  spec.adapters = adapters;
  return spec;
}

struct Case {
  const char* name;
  Spec spec;
};
std::vector<Case> cases() {
  return {{"whole linears",
           spec_with("attention.qkv in 0-1: rank 3, scale 0.5, magnitudes; attention.out in 0: rank 2, scale 2, "
                     "magnitudes; mlp.in in 0-1: rank 5, scale 1, magnitudes; mlp.out in 0: rank 4, scale 0.75, "
                     "magnitudes",
                     false)},
          {"parts",
           spec_with("attention.qkv.query in 0-1: rank 3, scale 0.5, magnitudes; attention.qkv.value in 1: rank 2, "
                     "scale 2; mlp.in.gate in 0-1: rank 2, scale 1, magnitudes",
                     true)}};
}

double* values(TestModel<double>& model, const std::string& name) {
  return &model.weights[static_cast<size_t>(model.table.find(name).offset)];
}

/// Lengths of an adapter's rows of W + scale B A, by all adapters of its linear.
std::vector<double> lengths(TestModel<double>& model, const Adapter& adapter) {
  const Spec& spec = model.table.spec();
  const Parameter& weight = model.table.find(adapter.linear + ".weight");
  const int64_t in = weight.shape[1], count = model.table.find(adapter.b()).shape[0];
  int64_t first = 0;
  for (const Adapter& other : adapters_of(spec, adapter.linear)) {
    if (other.part == adapter.part) break;
    first += other.rank;
  }
  const RowPattern outputs = outputs_of(spec, adapter.part);
  const double *w = values(model, weight.name), *a = values(model, adapter.a()), *b = values(model, adapter.b());
  std::vector<double> made;
  for (int64_t out = 0; out < count; ++out) {
    double squares = 0;
    for (int64_t i = 0; i < in; ++i) {
      double value = w[outputs.place(out) * in + i];
      for (int64_t k = 0; k < adapter.rank; ++k)
        value += static_cast<double>(adapter.scale) * b[out * adapter.rank + k] * a[(first + k) * in + i];
      squares += value * value;
    }
    made.push_back(std::sqrt(squares));
  }
  return made;
}

TEST(Magnitudes, BackwardEqualsFiniteDifferencesWithConstantLengths) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Spec& spec = one.spec;
    TestModel<double> model(spec);
    TestBatch data(spec, {5, 1, 7}, 1);
    const auto ops = make_reference_ops();
    Stage stage(spec, model.views, DType::f64, {.rows = 16}, *ops, 1);
    const Batch batch = data.with_values(true);
    (void)stage.loss_and_backward(batch, kStep, 1, Write::overwrite, nullptr);
    const std::vector<double> gradients = model.gradients, weights = model.weights;
    std::vector<std::vector<double>> before;
    for (const Adapter& adapter : adapters_of(spec)) before.push_back(lengths(model, adapter));
    // Loss where magnitudes grow as the lengths do, so that their ratio stays.
    const auto loss = [&](const Parameter& changed, int64_t element, double by) {
      model.weights = weights;
      model.weights[static_cast<size_t>(changed.offset + element)] += by;
      const std::vector<Adapter> adapters = adapters_of(spec);
      for (size_t i = 0; i < adapters.size(); ++i) {
        if (!adapters[i].magnitude) continue;
        const std::vector<double> now = lengths(model, adapters[i]);
        double* const magnitudes = values(model, adapters[i].magnitudes());
        for (size_t out = 0; out < now.size(); ++out) magnitudes[out] *= now[out] / before[i][out];
      }
      return stage.loss_and_backward(batch, kStep, 1, Write::overwrite, nullptr);
    };
    for (const Parameter& p : model.table.all()) {
      if (p.name == "embedding.token.weight") continue;  // its two sums: stage_test.cc
      const int64_t stride = std::max<int64_t>(1, p.count() / 7);
      for (int64_t i = 0; i < p.stored_shape.count(); i += stride) {
        const double h = 1e-5, expected = (loss(p, i, h) - loss(p, i, -h)) / (2 * h);
        EXPECT_NEAR(gradients[static_cast<size_t>(p.offset + i)], expected, 1e-6 * std::max(1.0, std::abs(expected)))
            << p.name << "[" << i << "]";
      }
    }
  }
}

TEST(Magnitudes, CpuEqualsTheReference) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Spec& spec = one.spec;
    TestModel<double> exact(spec);
    TestModel<float> fast(spec);
    TestBatch data(spec, {5, 1, 7}, 1);
    const auto reference = make_reference_ops();
    const auto cpu = make_cpu_ops();
    Stage exact_stage(spec, exact.views, DType::f64, {.rows = 16}, *reference, 1);
    Stage fast_stage(spec, fast.views, DType::f32, {.rows = 16}, *cpu, 2);
    const double want = exact_stage.loss_and_backward(data.with_values(true), kStep, 1, Write::overwrite, nullptr);
    EXPECT_NEAR(fast_stage.loss_and_backward(data.with_values(false), kStep, 1, Write::overwrite, nullptr), want, 1e-4);
    for (const Parameter& p : exact.table.all()) {
      const auto a = exact.gradient(p), b = fast.gradient(p);
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(b[i], a[i], 2e-4 * std::max(1.0, std::abs(a[i]))) << p.name;
    }
  }
}

/// Magnitudes that are the lengths of the rows leave a linear as it is.
TEST(Magnitudes, OfTheLengthsOfRowsChangeNothing) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    const Spec& spec = one.spec;
    TestModel<double> model(spec);
    TestBatch data(spec, {5, 1, 7}, 1);
    const auto ops = make_reference_ops();
    std::vector<Adapter> adapters = adapters_of(spec);
    for (const Adapter& adapter : adapters) {
      if (!adapter.magnitude) continue;
      const std::vector<double> found = lengths(model, adapter);
      std::ranges::copy(found, values(model, adapter.magnitudes()));
    }
    Spec plain_spec = spec;
    for (Adapter& adapter : adapters) adapter.magnitude = false;
    plain_spec.adapters = adapters_text(adapters);
    TestModel<double> plain(plain_spec);
    for (const Parameter& p : plain.table.all()) std::copy_n(values(model, p.name), p.count(), values(plain, p.name));
    Stage with(spec, model.views, DType::f64, {.rows = 16}, *ops, 1),
        without(plain_spec, plain.views, DType::f64, {.rows = 16}, *ops, 1);
    const Batch batch = data.with_values(true);
    EXPECT_NEAR(with.loss_and_backward(batch, kStep, 1, Write::overwrite, nullptr),
                without.loss_and_backward(batch, kStep, 1, Write::overwrite, nullptr), 1e-12);
    for (const Parameter& p : plain.table.all()) {
      const std::vector<double> want = plain.gradient(p), got = model.gradient(model.table.find(p.name));
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-10) << p.name;
    }
  }
}

TEST(Magnitudes, AreWrittenAndReadWithTheirAdapters) {
  for (const auto& [name, spec] : cases()) {
    Spec again = spec;
    again.adapters = adapters_text(adapters_of(spec));
    EXPECT_EQ(adapters_of(again), adapters_of(spec)) << name;
  }
}

}  // namespace
}  // namespace trireme
