#include "tests/ops/op_test.h"

namespace trireme::test {
namespace {

/// A call of the gated delta rule with everything that its backward needs.
struct Delta {
  DeltaShape shape;
  std::vector<int32_t> offsets;
  Tensor mixed, projected, decay_log, decay_bias, out, states, dout, dmixed, dprojected, dlog, dbias;

  Delta(DType a, std::vector<int32_t> lengths, DeltaShape s) : shape(s), offsets{0} {
    for (const int32_t length : lengths) offsets.push_back(offsets.back() + length);
    const DType stat = a == DType::f64 ? DType::f64 : DType::f32;
    const int64_t rows = offsets.back();
    mixed = Tensor::random(a, {rows, s.key_heads, s.mixed_width()}, 1);
    projected = Tensor::random(a, {rows, s.key_heads, s.width()}, 2);
    // Decays from almost none to almost all.
    decay_log = Tensor::random(a, {s.heads()}, 3, 2, -2);
    decay_bias = Tensor::random(a, {s.heads()}, 4);
    dout = Tensor::random(a, {rows, s.heads(), s.value_size}, 5);
    out = Tensor(a, dout_shape());
    states = Tensor(stat, {delta_states(rows), s.heads(), s.key_size, s.value_size});
    dmixed = Tensor(a, {rows, s.key_heads, s.mixed_width()});
    dprojected = Tensor::random(a, {rows, s.key_heads, s.width()}, 6);
    dlog = Tensor::random(stat, {s.heads()}, 7);
    dbias = Tensor::random(stat, {s.heads()}, 8);
  }
  Shape dout_shape() const { return {offsets.back(), shape.heads(), shape.value_size}; }
  DeltaShape with_offsets() const {
    DeltaShape s = shape;
    s.offsets = ConstView(offsets.data(), DType::i32, {std::ssize(offsets)});
    return s;
  }
  Delta wide() const {
    Delta d = *this;
    for (Tensor* t : {&d.mixed, &d.projected, &d.decay_log, &d.decay_bias, &d.out, &d.states, &d.dout, &d.dmixed,
                      &d.dprojected, &d.dlog, &d.dbias})
      *t = t->wide();
    return d;
  }
  void forward(Device& d) {
    d.ops->delta_rule(d.context, mixed.view(), projected.view(), decay_log.view(), decay_bias.view(), with_offsets(),
                      out.view(), states.view());
  }
  void backward(Device& d, Write write = Write::overwrite) {
    d.ops->delta_rule_backward(d.context, dout.view(), mixed.view(), projected.view(), decay_log.view(),
                               decay_bias.view(), with_offsets(), states.view(), dmixed.view(), dprojected.view(),
                               dlog.view(), dbias.view(), write);
  }
  double loss(Device& d) {
    forward(d);
    return dot(out, dout);
  }
};

const DeltaShape kSmall{.key_heads = 2, .group = 2, .key_size = 5, .value_size = 7, .offsets = {}};
const DeltaShape kPublished{.key_heads = 1, .group = 1, .key_size = 128, .value_size = 128, .offsets = {}};
const DeltaShape kGrouped{.key_heads = 2, .group = 3, .key_size = 16, .value_size = 32, .offsets = {}};

class DeltaRule : public CpuOp {};
INSTANTIATE_TEST_SUITE_P(Cpu, DeltaRule, every_case(), case_name);

TEST_P(DeltaRule, ForwardAndBackwardEqualTheReferenceOverBordersOfSequencesAndChunks) {
  for (const DeltaShape& shape : {kSmall, kGrouped, kPublished})
    for (const std::vector<int32_t>& lengths : {std::vector<int32_t>{1}, {64, 3, 0, 65}, {7, 150}}) {
      Delta got(dtype(), lengths, shape);
      Delta want = got.wide();
      got.forward(*cpu);
      want.forward(*reference);
      const auto what = fmt::format("{} x {}, {} rows", shape.key_size, shape.value_size, got.offsets.back());
      expect_close(got.out, want.out, GetParam().activation(10), "out, " + what);
      expect_close(got.states, want.states, {2e-5, 2e-5}, "states, " + what);
      got.backward(*cpu, Write::add);
      want.backward(*reference, Write::add);
      expect_close(got.dmixed, want.dmixed, GetParam().activation(50), "dmixed, " + what);
      expect_close(got.dprojected, want.dprojected, GetParam().activation(50), "dprojected, " + what);
      expect_close(got.dlog, want.dlog, {1e-4, 4e-4}, "ddecay_log, " + what);
      expect_close(got.dbias, want.dbias, {1e-4, 4e-4}, "ddecay_bias, " + what);
    }
}

// The sequences of a row are documents: none sees another.
TEST_P(DeltaRule, ASequenceHasTheBitsThatItHasAlone) {
  Delta all(dtype(), {70, 5, 130}, kGrouped), alone(dtype(), {130}, kGrouped);
  const auto copy_rows = [](const Tensor& from, Tensor& to) {
    const size_t first = from.size() - to.size();
    for (size_t i = 0; i < to.size(); ++i) to.set(i, from.at(first + i));
  };
  for (const auto member : {&Delta::mixed, &Delta::projected, &Delta::dout, &Delta::dprojected})
    copy_rows(all.*member, alone.*member);
  for (Delta* d : {&all, &alone}) {
    d->forward(*cpu);
    d->backward(*cpu);
  }
  for (const auto member : {&Delta::out, &Delta::states, &Delta::dmixed, &Delta::dprojected}) {
    Tensor last = alone.*member;
    copy_rows(all.*member, last);
    EXPECT_TRUE(last == alone.*member);
  }
}

TEST_P(DeltaRule, TwoRunsAndOtherThreadsGiveTheSameBits) {
  Delta first(dtype(), {70, 5, 130}, kGrouped), second = first;
  const auto other = Device::cpu(3);
  first.forward(*cpu);
  first.backward(*cpu);
  second.forward(*other);
  second.backward(*other);
  for (const auto member :
       {&Delta::out, &Delta::states, &Delta::dmixed, &Delta::dprojected, &Delta::dlog, &Delta::dbias})
    EXPECT_TRUE(first.*member == second.*member);
}

TEST_P(DeltaRule, LargeDecaysThatFollowSmallOnesKeepTheirDigits) {
  Delta got(dtype(), {128}, kGrouped);
  for (size_t i = 0; i < got.decay_log.size(); ++i) got.decay_log.set(i, 2.75);
  const auto width = static_cast<size_t>(got.shape.width()), group = static_cast<size_t>(got.shape.group);
  for (size_t i = 0; i < got.projected.size(); ++i)
    if (i % width >= width - group) got.projected.set(i, i / width < 100 ? 12 : -9);
  Delta want = got.wide();
  got.forward(*cpu);
  want.forward(*reference);
  expect_close(got.out, want.out, GetParam().activation(10), "out");
}

TEST_P(DeltaRule, GenerationRowByRowGivesTheOutputsOfTheWholeSequence) {
  Delta whole(dtype(), {75}, kGrouped);
  whole.forward(*cpu);
  for (Device* device : {cpu.get(), reference.get()}) {
    Delta parts = device == cpu.get() ? whole : whole.wide();
    Tensor state = Tensor::random(parts.states.dtype(), {1, 6, 16, 32}, 9);  // not read where nothing is past
    int32_t past = 0;
    for (const int32_t length : {66, 1, 1, 7}) {
      const std::vector<int32_t> offsets{0, length};
      DeltaShape shape = kGrouped;
      shape.offsets = ConstView(offsets.data(), DType::i32, {2});
      device->ops->delta_rule_cached(device->context, parts.mixed.view().rows_slice(past, length),
                                     parts.projected.view().rows_slice(past, length), parts.decay_log.view(),
                                     parts.decay_bias.view(), shape, ConstView(&past, DType::i32, {1}), state.view(),
                                     parts.out.view().rows_slice(past, length));
      past += length;
    }
    expect_close(parts.out, whole.out, GetParam().activation(10), "out");
  }
}

TEST(DeltaRuleReference, BackwardEqualsFiniteDifferences) {
  const auto device = Device::reference();
  Delta d(DType::f64, {5, 1, 3}, kSmall);
  const Tensor before = d.dprojected;
  d.forward(*device);
  d.backward(*device);
  const auto loss_by = [&](Tensor Delta::*member) {
    return [&device, &d, member](const Tensor& x) {
      Delta moved = d;
      moved.*member = x;
      return moved.loss(*device);
    };
  };
  expect_gradient(loss_by(&Delta::mixed), d.mixed, d.dmixed, "dmixed");
  expect_gradient(loss_by(&Delta::decay_log), d.decay_log, d.dlog, "ddecay_log");
  expect_gradient(loss_by(&Delta::decay_bias), d.decay_bias, d.dbias, "ddecay_bias");
  // Of what is projected only betas and decays are read; the rest of the gradient stays.
  const auto width = static_cast<size_t>(d.shape.width()), logits = static_cast<size_t>(2 * d.shape.group);
  Tensor of_logits = d.dprojected;
  for (size_t i = 0; i < of_logits.size(); ++i) {
    if (i % width >= width - logits) continue;
    EXPECT_EQ(d.dprojected.at(i), before.at(i));
    of_logits.set(i, 0);
  }
  expect_gradient(loss_by(&Delta::projected), d.projected, of_logits, "dprojected");
  Tensor columns(DType::f64, {2 * 2});
  for (size_t i = 0; i < of_logits.size(); ++i)  // the stride of expect_gradient() may miss the logits
    if (i % width >= width - logits && i < 4 * width) {
      Delta above = d, below = d;
      above.projected.set(i, d.projected.at(i) + 1e-5);
      below.projected.set(i, d.projected.at(i) - 1e-5);
      EXPECT_NEAR(of_logits.at(i), (above.loss(*device) - below.loss(*device)) / 2e-5, 1e-6) << i;
    }
}

TEST(DeltaRuleReference, IsItsFormulaOverTwoRowsOfOneValue) {
  const auto device = Device::reference();
  Delta d(DType::f64, {2}, {.key_heads = 1, .group = 1, .key_size = 1, .value_size = 1, .offsets = {}});
  d.mixed = Tensor(DType::f64, {2, 1, 3}, {2, 3, 5, -1, 1, 7});
  d.projected = Tensor(DType::f64, {2, 1, 6}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  d.projected = Tensor(DType::f64, {2, 1, d.shape.width()}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  d.decay_log = Tensor(DType::f64, {1}, {0});
  d.decay_bias = Tensor(DType::f64, {1}, {0});
  d.forward(*device);
  // beta 1/2, decay e^-ln 2 = 1/2; keys of length 1 after it, up to the 1e-6.
  const double first = 0.5 * 5, second = 0.5 * first + 0.5 * (7 - 0.5 * first);
  EXPECT_NEAR(d.out.at(0), first, 1e-5);
  EXPECT_NEAR(d.out.at(1), -second, 1e-5);
}

TEST(DeltaRuleChecks, WrongShapesAreNamed) {
  const auto device = Device::reference();
  Delta d(DType::f64, {5}, kSmall);
  d.out = Tensor(DType::f64, {5, 4, 6});
  try {
    d.forward(*device);
    FAIL() << "a wrong shape was taken";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "delta_rule: out is f64 [5, 4, 6], expected f64 [5, 4, 7]");
  }
}

}  // namespace
}  // namespace trireme::test
