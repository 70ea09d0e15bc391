#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

/// Logits with padding columns that would win if they were counted, and targets inside and outside of the slice.
struct Loss {
  int64_t rows, columns, classes, first_class;
  Tensor logits, targets, max, sum, target;

  Loss(DType a, int64_t rows_, int64_t columns_, int64_t classes_, int64_t first = 0)
      : rows(rows_), columns(columns_), classes(classes_), first_class(first) {
    const DType s = a == DType::f64 ? DType::f64 : DType::f32;
    logits = Tensor::random(a, {rows, columns}, 1, 4);
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t j = classes; j < columns; ++j) logits.set(static_cast<size_t>(row * columns + j), 100);
    targets = Tensor(DType::i32, {rows});
    for (int64_t row = 0; row < rows; ++row)
      targets.set(static_cast<size_t>(row), row % 4 == 3 ? -1 : static_cast<double>((row * 7919) % (classes + first)));
    max = sum = target = Tensor(s, {rows});
  }
  Loss wide() const {
    Loss l = *this;
    for (Tensor* t : {&l.logits, &l.max, &l.sum, &l.target}) *t = t->wide();
    return l;
  }
  void stats(Device& d) {
    d.ops->softmax_stats(d.context, logits.view(), targets.view(), first_class, classes, max.view(), sum.view(),
                         target.view());
  }
  void smooth(Device& d, double smoothing) {
    d.ops->smooth_target(d.context, logits.view(), classes, smoothing, target.view());
  }
  void backward(Device& d, float scale, double smoothing = 0, float cap = 0) {
    d.ops->cross_entropy_backward(d.context, logits.view(), targets.view(), first_class, classes, max.view(),
                                  sum.view(), scale, smoothing, cap);
  }
  double loss(Device& d) {
    Tensor total(DType::f64, {1});
    d.ops->cross_entropy(d.context, max.view(), sum.view(), target.view(), targets.view(), total.view());
    return total.at(0);
  }
};

struct Size {
  int64_t columns, classes;
};
constexpr Size kSizes[] = {{1, 1}, {7, 7}, {48, 41}, {768, 768}, {4097, 4097}, {50304, 50257}};

class CrossEntropy : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, CrossEntropy, every_case(), case_name);

// Three parts of the columns, the last of which has only padding.
TEST_P(CrossEntropy, StatsAndGradientsOfPartsEqualThoseOfTheWholeRow) {
  constexpr int64_t kRows = 9, kColumns = 96, kClasses = 57, kPart = 32;
  const DType stat = DType::f32;
  for (Device* device : {cpu.get(), reference.get()}) {
    Loss whole(dtype(), kRows, kColumns, kClasses);
    if (device == reference.get()) whole = whole.wide();
    const Tensor logits = whole.logits;
    Tensor parts(device == cpu.get() ? stat : DType::f64, {3, 3, kRows});
    std::vector<Loss> cut;
    for (int64_t p = 0; p < 3; ++p) {
      Loss part(dtype(), kRows, kPart, std::clamp<int64_t>(kClasses - p * kPart, 0, kPart), p * kPart);
      if (device == reference.get()) part = part.wide();
      part.targets = whole.targets;
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t j = 0; j < kPart; ++j)
          part.logits.set(static_cast<size_t>(row * kPart + j),
                          logits.at(static_cast<size_t>(row * kColumns + p * kPart + j)));
      part.stats(*device);
      const std::vector<const Tensor*> stats{&part.max, &part.sum, &part.target};
      for (size_t which = 0; which < 3; ++which)
        for (size_t row = 0; row < kRows; ++row)
          parts.set((3 * static_cast<size_t>(p) + which) * kRows + row, stats[which]->at(row));
      cut.push_back(part);
    }
    whole.stats(*device);
    Loss joined = whole;
    device->ops->softmax_combine(device->context, parts.view(), joined.max.view(), joined.sum.view(),
                                 joined.target.view());
    expect_close(joined.max, whole.max.wide(), {0, 0}, "max");
    expect_close(joined.sum, whole.sum.wide(), {1e-6, 0}, "sum");
    expect_close(joined.target, whole.target.wide(), {0, 0}, "target");
    whole.backward(*device, 0.5f);
    for (size_t p = 0; p < 3; ++p) {
      cut[p].max = joined.max, cut[p].sum = joined.sum;
      cut[p].backward(*device, 0.5f);
      for (size_t row = 0; row < kRows; ++row)
        for (size_t j = 0; j < kPart; ++j)
          EXPECT_NEAR(cut[p].logits.at(row * kPart + j), whole.logits.at(row * kColumns + p * kPart + j), 4e-3);
    }
  }
}

TEST_P(CrossEntropy, StatsEqualTheReference) {
  for (int64_t rows : {0, 1, 9})
    for (Size size : kSizes)
      for (int64_t first : {0, 3}) {
        Loss got(dtype(), rows, size.columns, size.classes, first);
        Loss want = got.wide();
        got.stats(*cpu);
        want.stats(*reference);
        const auto what = fmt::format("{} rows, {} of {} columns", rows, size.classes, size.columns);
        expect_close(got.max, want.max, {0, 0}, "max, " + what);
        // Without vectors, 1024 exponentials are added one by one.
        expect_close(got.sum, want.sum, {4e-6, 0}, "sum, " + what);
        expect_close(got.target, want.target, {0, 0}, "target, " + what);
      }
}

TEST_P(CrossEntropy, BackwardEqualsTheReference) {
  for (int64_t rows : {0, 1, 9})
    for (Size size : kSizes)
      for (int64_t first : {0, 3}) {
        Loss got(dtype(), rows, size.columns, size.classes, first);
        got.stats(*cpu);
        Loss want = got.wide();
        got.backward(*cpu, 0.25f);
        want.backward(*reference, 0.25f);
        // Relative to the probability: small ones count as much as large ones. 2e-7 is the rounding of p - 1 near 0.
        expect_close(got.logits, want.logits, {rounding(dtype(), 2e-6), 2e-7},
                     fmt::format("{} rows, {} of {} columns", rows, size.classes, size.columns));
      }
}

TEST_P(CrossEntropy, OfSmoothedLabelsEqualsTheReference) {
  for (const double smoothing : {0.1, 1.0})
    for (int64_t rows : {0, 1, 9})
      for (Size size : {Size{2, 2}, Size{3, 3}, Size{8, 3}, Size{48, 41}, Size{4097, 4097}}) {
        Loss got(dtype(), rows, size.columns, size.classes);
        Loss want = got.wide();
        for (const auto& [loss, device] : {std::pair{&got, cpu.get()}, std::pair{&want, reference.get()}}) {
          loss->stats(*device);
          loss->smooth(*device, smoothing);
        }
        const auto what =
            fmt::format("{} rows, {} of {} columns, smoothing {}", rows, size.classes, size.columns, smoothing);
        expect_close(got.target, want.target, {1e-6, 1e-6}, "target, " + what);
        EXPECT_NEAR(got.loss(*cpu), want.loss(*reference), 4e-5) << what;
        want.max = got.max.wide(), want.sum = got.sum.wide();
        got.backward(*cpu, 0.25f, smoothing);
        want.backward(*reference, 0.25f, smoothing);
        // As of plain labels; rounded once, though two terms are taken from the probability.
        expect_close(got.logits, want.logits, {rounding(dtype(), 2e-6), 4e-7}, what);
      }
}

// What transformers' LabelSmoother (4.51) with a factor of 0.1 gives for these logits and labels in f64, and the
// gradient.
TEST_P(CrossEntropy, OfSmoothedLabelsIsThatOfTransformers) {
  Loss l(dtype(), 3, 3, 3);
  l.logits = Tensor(dtype(), {3, 3}, {2, -1, 0.5, 0.25, 0.75, -3, -0.5, 4, 1.5});
  l.targets = Tensor(DType::i32, {3}, {0, 2, 1});
  l.stats(*cpu);
  l.smooth(*cpu, 0.1);
  EXPECT_NEAR(l.loss(*cpu) / 3, 1.5730082299532817, 1e-6);
  l.backward(*cpu, 1.0f / 3, 0.1);
  const double relative = rounding(dtype(), 2e-6);
  const Tensor want(
      DType::f64, {3, 3},
      {-0.049245432914685826, 0.0019264133124513722, 0.047319019602234454, 0.11292010531178302, 0.1933817936361255,
       -0.30630189894790855, -0.0077237902307658556, -0.006194202668073245, 0.013917992898839125});
  expect_close(l.logits, want, {relative, 4e-7}, "gradient");
}

TEST_P(CrossEntropy, OfCappedLogitsEqualsTheReference) {
  for (const double smoothing : {0.0, 0.1})
    for (int64_t rows : {0, 1, 9})
      for (Size size : kSizes) {
        Loss got(dtype(), rows, size.columns, size.classes);
        Loss want = got.wide();
        cpu->ops->soft_cap(cpu->context, got.logits.view(), 6);
        reference->ops->soft_cap(reference->context, want.logits.view(), 6);
        const auto what = fmt::format("{} rows, {} of {} columns", rows, size.classes, size.columns);
        // The error of tanh, 2e-7, times the cap.
        expect_close(got.logits, want.logits, {rounding(dtype(), 1e-6), 1.5e-6}, "cap, " + what);
        got.stats(*cpu);
        want = got.wide();
        got.backward(*cpu, 0.25f, smoothing, 6);
        want.backward(*reference, 0.25f, smoothing, 6);
        expect_close(got.logits, want.logits, {rounding(dtype(), 4e-6), 4e-7}, "gradient, " + what);
      }
}

TEST_P(CrossEntropy, PaddingColumnsAndIgnoredRowsGetNoGradient) {
  for (const double smoothing : {0.0, 0.2}) {
    Loss l(dtype(), 8, 100, 90);
    l.stats(*cpu);
    l.backward(*cpu, 1, smoothing);
    for (size_t row = 0; row < 8; ++row)
      for (size_t j = 0; j < 100; ++j)
        if (j >= 90 || row % 4 == 3) {
          EXPECT_EQ(l.logits.at(row * 100 + j), 0);
        }
  }
}

TEST_P(CrossEntropy, LargeLogitsDoNotOverflow) {
  Loss l(dtype(), 1, 4, 4);
  l.logits = Tensor(dtype(), {1, 4}, {1e4, 1e4, -1e4, -INFINITY});
  l.stats(*cpu);
  EXPECT_EQ(l.sum.at(0), 2);
  l.backward(*cpu, 1);
  EXPECT_EQ(l.logits.values(), (std::vector<double>{-0.5, 0.5, 0, 0}));
}

TEST_P(CrossEntropy, ALongRunOfMaskedLogitsIsLegal) {
  Loss l(dtype(), 1, 9000, 9000);
  for (size_t i = 0; i < 9000; ++i) l.logits.set(i, i == 8000 ? 2 : -INFINITY);
  l.stats(*cpu);
  EXPECT_EQ(l.max.at(0), 2);
  EXPECT_EQ(l.sum.at(0), 1);
}

TEST_P(CrossEntropy, ANanLogitReachesTheSum) {
  for (size_t at : {size_t{0}, size_t{4500}, size_t{8999}}) {
    Loss l(dtype(), 1, 9000, 9000);
    l.logits.set(at, NAN);
    l.stats(*cpu);
    EXPECT_TRUE(std::isnan(l.sum.at(0))) << at;
  }
}

TEST_P(CrossEntropy, StatsTakeF32LogitsToo) {
  Loss got(DType::f32, 5, 1000, 1000);
  Loss want = got.wide();
  got.stats(*cpu);
  want.stats(*reference);
  expect_close(got.sum, want.sum, {1e-6, 0}, "sum");
}

TEST(CrossEntropyReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  const Loss l(DType::f64, 5, 11, 9);
  for (const double smoothing : {0.0, 0.3}) {
    Loss gradient = l;
    gradient.stats(*device);
    gradient.backward(*device, 0.5f, smoothing);
    const auto loss = [&](const Tensor& logits) {
      Loss moved = l;
      moved.logits = logits;
      moved.stats(*device);
      if (smoothing > 0) moved.smooth(*device, smoothing);
      return 0.5 * moved.loss(*device);
    };
    expect_gradient(loss, l.logits, gradient.logits, fmt::format("logits, smoothing {}", smoothing));
  }
}

TEST(CrossEntropyReference, BackwardOfCappedLogitsEqualsFiniteDifferences) {
  const auto device = Device::reference();
  const Loss l(DType::f64, 5, 11, 11);
  const auto capped = [&](const Tensor& logits) {
    Loss moved = l;
    moved.logits = logits;
    device->ops->soft_cap(device->context, moved.logits.view(), 3);
    moved.stats(*device);
    return moved;
  };
  Loss gradient = capped(l.logits);
  gradient.backward(*device, 0.5f, 0, 3);
  expect_gradient([&](const Tensor& logits) { return 0.5 * capped(logits).loss(*device); }, l.logits, gradient.logits,
                  "logits");
}

TEST(CrossEntropyReference, SlicesOfTheVocabularyAddUpToTheWhole) {
  const auto device = Device::reference();
  Loss whole(DType::f64, 6, 20, 20);
  whole.stats(*device);
  Tensor target(DType::f64, {6});
  for (int64_t first : {0, 12}) {
    const int64_t n = first == 0 ? 12 : 8;
    Loss part(DType::f64, 6, n, n, first);
    part.targets = whole.targets;
    for (size_t row = 0; row < 6; ++row)
      for (size_t j = 0; j < static_cast<size_t>(n); ++j)
        part.logits.set(row * static_cast<size_t>(n) + j, whole.logits.at(row * 20 + static_cast<size_t>(first) + j));
    part.stats(*device);
    for (size_t row = 0; row < 6; ++row) target.set(row, target.at(row) + part.target.at(row));
  }
  EXPECT_TRUE(target == whole.target);
}

TEST(SquaredError, EqualsItsDefinitionOnBothBackendsAndItsGradient) {
  const auto cpu = Device::cpu(2), reference = Device::reference();
  const Tensor z = Tensor::random(DType::f64, {5, 1}, 1), targets = Tensor::random(DType::f64, {5}, 2);
  double sum = 0;
  for (size_t i = 0; i < 5; ++i) sum += (z.at(i) - targets.at(i)) * (z.at(i) - targets.at(i));
  const auto loss = [&](const Tensor& x) {
    Tensor total(DType::f64, {1});
    reference->ops->squared_error(reference->context, x.view(), targets.view(), total.view());
    return total.at(0);
  };
  EXPECT_DOUBLE_EQ(loss(z), sum);
  Tensor gradient = z;
  reference->ops->squared_error_backward(reference->context, gradient.view(), targets.view(), 1);
  expect_gradient(loss, z, gradient, "z");
  const Tensor narrow_targets(DType::f32, {5}, targets.values());
  for (DType dtype : {DType::f32, DType::bf16}) {
    Tensor fast(dtype, {5, 1}, z.values());
    const double relative = dtype == DType::bf16 ? 0.05 : 1e-5;
    Tensor total(DType::f64, {1}, {7});
    cpu->ops->squared_error(cpu->context, fast.view(), narrow_targets.view(), total.view());
    EXPECT_NEAR(total.at(0), 7 + sum, relative * sum) << "it is added";
    cpu->ops->squared_error_backward(cpu->context, fast.view(), narrow_targets.view(), 1);
    expect_close(fast, gradient, {relative, relative}, "gradient");
  }
}

}  // namespace
}  // namespace trireme::test
