// Layers that are split over ranks, ranks as threads, against the complete model.

#include <gtest/gtest.h>

#include "base/time.h"
#include "model/stage.h"
#include "model/tensor_group.h"
#include "ops/profile.h"
#include "tests/model/model_fixture.h"
#include "tests/model/spec_cases.h"
#include "tests/support/local_ranks.h"

namespace trireme {
namespace {

constexpr StagePart::Step kStep{.seed = 3, .step = 5, .dropout = true};
constexpr float kScale = 0.5f;
constexpr int64_t kRows = 11;

Spec cut_spec() {
  Spec spec = small_spec();
  spec.heads = 4;
  spec.width = 16;
  return spec;
}

/// A rank's part of a model, and its gradients.
struct Share {
  ParameterTable table;
  std::vector<float> weights, gradients;
  ParameterViews views;

  Share(const TestModel<float>& whole, int rank, int size)
      : table(whole.table.spec(), InitScheme::gpt2, {.part = {}, .tensor_rank = rank, .tensor_size = size}),
        weights(static_cast<size_t>(table.flat_count())),
        gradients(static_cast<size_t>(table.gradient_count())) {
    views = {&table, View(std::span(weights), {table.flat_count()}),
             View(std::span(gradients), {table.gradient_count()})};
    for (const Parameter& p : table.all()) {
      const Parameter& from = whole.table.find(p.name);
      for_each_run(p.box, from.box, p.box, [&](int64_t at, int64_t place, int64_t count) {
        std::copy_n(&whole.weights[static_cast<size_t>(from.offset + at)], count,
                    &weights[static_cast<size_t>(p.offset + place)]);
      });
    }
  }

  /// The largest difference of each parameter's gradient, over the norm of the reference.
  void expect_gradients_of(const TestModel<float>& whole) const {
    double qkv_norm = 0;
    for (const Parameter& p : table.all()) {
      const Parameter& from = whole.table.find(p.name);
      const std::vector<double> all = whole.gradient(from);
      double norm = 0, worst = 0;
      for (const double g : all) norm += g * g;
      for_each_run(p.box, from.box, p.box, [&](int64_t at, int64_t place, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          double own = static_cast<double>(gradients[static_cast<size_t>(p.offset + place + i)]);
          if (table.sums_twice() && p.name == "embedding.token.weight")
            own += static_cast<double>(gradients[static_cast<size_t>(table.flat_count() + place + i)]);
          worst = std::max(worst, std::abs(own - all[static_cast<size_t>(at + i)]));
        }
      });
      norm = std::sqrt(norm);
      if (p.name.ends_with("qkv.weight")) qkv_norm = norm;
      const double limit = p.name.ends_with("qkv.bias") ? std::max(norm, qkv_norm) : norm;
      EXPECT_LE(worst, 1e-5 * limit + 1e-9) << p.name << ", norm " << norm;
    }
  }
};

class EveryChoiceCut : public testing::TestWithParam<SpecCase> {};

INSTANTIATE_TEST_SUITE_P(TensorParallel, EveryChoiceCut, testing::ValuesIn(kSpecCases),
                         [](const auto& choice) { return std::string(choice.param.name); });

/// Ranks that share rows: 11 and 10 of them are cut unevenly.
TEST_P(EveryChoiceCut, GivesTheLossAndGradientsOfTheWholeModel) {
  Spec spec = cut_spec();
  GetParam().change(spec);
  for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full}) {
    TestModel<float> whole(spec);
    const auto ops = make_cpu_ops();
    ModelShape shape{.rows = kRows, .head_rows = 4, .recompute = recompute};
    Stage stage(spec, whole.views, DType::f32, shape, *ops, 1);
    TestBatch first(spec, {6, 4}, 10), second(spec, {3, 7, 1}, 11);
    const auto steps = [&](Stage& of, GradientSink* sink) {
      return std::array{
          of.loss_and_backward(first.with_values(false), kStep, kScale, Write::overwrite, nullptr),
          of.loss_and_backward(second.with_values(false), kStep, kScale, Write::add, sink),
      };
    };
    const auto losses = steps(stage, nullptr);
    const double evaluated = stage.loss(first.with_values(false));
    for (const auto& layout : {std::pair(1, false), {2, false}, {4, false}, {2, true}, {4, true}}) {
      const int ranks = layout.first;
      const bool shares = layout.second;
      if (spec.kv_heads() % ranks != 0) continue;
      shape.sequence_parallel = shares;
      SCOPED_TRACE(testing::Message() << ranks << " ranks, recompute " << static_cast<int>(recompute)
                                      << (shares ? ", rows shared" : ""));
      run_local(ranks, [&](RankContext& rank) {
        const auto own_ops = make_cpu_ops();
        Share share(whole, rank.rank(), ranks);
        std::unique_ptr<TensorGroup> tensor;
        if (ranks > 1)
          tensor = std::make_unique<TensorGroup>(rank.world, *own_ops, tensor_sizes(spec, DType::f32, shape, *own_ops));
        Stage part(spec, share.views, DType::f32, shape, *own_ops, 1, tensor.get());
        std::optional<SequenceParallelSums> sums;
        if (shape.sequence_parallel) sums.emplace(share.table, share.views.gradients, *tensor, part.context(), nullptr);
        const auto got = steps(part, sums ? &*sums : nullptr);
        // A loss below 1 has the absolute error of its logits.
        const auto tolerance = [](double loss) { return 1e-6 * std::max(1.0, std::abs(loss)); };
        for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(got[i], losses[i], tolerance(losses[i]));
        EXPECT_NEAR(part.loss(first.with_values(false)), evaluated, tolerance(evaluated));
        share.expect_gradients_of(whole);
      });
    }
  }
}

// A micro-batch of fewer rows than ranks: some have none between layers.
TEST_P(EveryChoiceCut, RanksWithoutRowsTakePart) {
  Spec spec = cut_spec();
  GetParam().change(spec);
  if (spec.kv_heads() % 4 != 0) return;
  TestModel<float> whole(spec);
  const auto ops = make_cpu_ops();
  const ModelShape shape{.rows = kRows, .head_rows = 4, .sequence_parallel = true};
  TestBatch few(spec, {3}, 10);
  Stage stage(spec, whole.views, DType::f32, {.rows = kRows, .head_rows = 4}, *ops, 1);
  const double loss = stage.loss_and_backward(few.with_values(false), kStep, kScale, Write::overwrite, nullptr);
  run_local(4, [&](RankContext& rank) {
    const auto own_ops = make_cpu_ops();
    Share share(whole, rank.rank(), 4);
    TensorGroup tensor(rank.world, *own_ops, tensor_sizes(spec, DType::f32, shape, *own_ops));
    Stage part(spec, share.views, DType::f32, shape, *own_ops, 1, &tensor);
    SequenceParallelSums sums(share.table, share.views.gradients, tensor, part.context(), nullptr);
    EXPECT_NEAR(part.loss_and_backward(few.with_values(false), kStep, kScale, Write::overwrite, &sums), loss,
                1e-6 * std::max(1.0, std::abs(loss)));  // a squared error may be small
    share.expect_gradients_of(whole);
  });
}

/// The bytes that a rank sends in one forward and backward, exactly. A sum of n elements: its part to all, the others'
/// parts to them.
TEST(TensorParallel, SendsFourSumsPerLayerAndThreeWhereBranchesAreParallel) {
  for (const bool parallel : {false, true})
    for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full})
      for (const int ranks : {2, 4}) {
        Spec spec = cut_spec();
        if (parallel) spec.residual = Residual::parallel;
        TestModel<float> whole(spec);
        constexpr int64_t kBatchRows = 8;
        const ModelShape shape{.rows = kBatchRows, .recompute = recompute};
        TestBatch data(spec, {5, 3}, 10);
        const auto r = static_cast<uint64_t>(ranks), l = static_cast<uint64_t>(spec.layers);
        const uint64_t sum = 2 * (r - 1) * kBatchRows * static_cast<uint64_t>(spec.width) * sizeof(float) / r;
        const uint64_t repeated = recompute == Recompute::full && !parallel ? 1 : 0;  // attention's output
        const uint64_t sums = 1 /* embedding */ + ((parallel ? 3 : 4) + repeated) * l + 1 /* head's dx */;
        const uint64_t statistics = 3 * kBatchRows * sizeof(float) * (r - 1);
        run_local(ranks, [&](RankContext& rank) {
          const auto ops = make_cpu_ops();
          Share share(whole, rank.rank(), ranks);
          TensorGroup tensor(rank.world, *ops, tensor_sizes(spec, DType::f32, shape, *ops));
          Stage part(spec, share.views, DType::f32, shape, *ops, 1, &tensor);
          (void)part.loss_and_backward(data.with_values(false), kStep, 1, Write::overwrite, nullptr);
          EXPECT_EQ(tensor.bytes_sent(), sums * sum + statistics) << parallel << ", " << ranks << " ranks";
        });
      }
}

/// The same where ranks share rows: per layer ten halves of a sum in place of eight (eight of six where branches are
/// parallel), because the inputs of qkv and mlp.in are gathered again for their weights' gradients; and once a step the
/// gradients of norms and row biases.
TEST(TensorParallel, SequenceParallelismSendsFiveQuartersOfTheBytes) {
  for (const bool parallel : {false, true})
    for (const Recompute recompute : {Recompute::none, Recompute::attention, Recompute::full})
      for (const int ranks : {2, 4}) {
        Spec spec = cut_spec();
        if (parallel) spec.residual = Residual::parallel;
        TestModel<float> whole(spec);
        constexpr int64_t kBatchRows = 8;
        const ModelShape shape{.rows = kBatchRows, .recompute = recompute, .sequence_parallel = true};
        TestBatch data(spec, {5, 3}, 10);
        const auto r = static_cast<uint64_t>(ranks), l = static_cast<uint64_t>(spec.layers);
        const uint64_t half = (r - 1) * kBatchRows * static_cast<uint64_t>(spec.width) * sizeof(float) / r;
        // A forward again: the inputs of both matrices, and attention's output.
        const uint64_t repeated = recompute != Recompute::full ? 0 : parallel ? 2 : 3;
        const uint64_t halves = 2 /* embedding */ + ((parallel ? 8 : 10) + repeated) * l + 2 /* head */;
        const uint64_t statistics = 3 * kBatchRows * sizeof(float) * (r - 1);
        // Two norms with biases and two biases in each layer, the final norm, positions.
        const auto width = static_cast<uint64_t>(spec.width), context = static_cast<uint64_t>(spec.context);
        const uint64_t gradients = (6 * l + 2 + context) * width * sizeof(float) * 2 * (r - 1) / r;
        run_local(ranks, [&](RankContext& rank) {
          const auto ops = make_cpu_ops();
          Share share(whole, rank.rank(), ranks);
          TensorGroup tensor(rank.world, *ops, tensor_sizes(spec, DType::f32, shape, *ops));
          Stage part(spec, share.views, DType::f32, shape, *ops, 1, &tensor);
          SequenceParallelSums sums(share.table, share.views.gradients, tensor, part.context(), nullptr);
          (void)part.loss_and_backward(data.with_values(false), kStep, 1, Write::overwrite, nullptr);
          EXPECT_EQ(tensor.bytes_sent(), halves * half + statistics) << parallel << ", " << ranks << " ranks";
          const uint64_t before = tensor.bytes_sent();
          for (const ParameterRange& range : share.table.ready_ranges()) sums.ready(range);
          EXPECT_EQ(tensor.bytes_sent() - before, gradients);
        });
      }
}

TEST(TensorParallel, SequenceParallelismNeedsAShareOfTheMemory) {
  const auto ops = make_cpu_ops();
  for (const auto& choice : {std::pair(Recompute::none, NormPlace::pre),
                             {Recompute::none, NormPlace::post},
                             {Recompute::attention, NormPlace::pre},
                             {Recompute::full, NormPlace::pre}}) {
    const Recompute recompute = choice.first;
    const NormPlace placed = choice.second;
    Spec spec = cut_spec();
    spec.layers = 5;
    spec.norm_place = placed;
    spec.final_norm = placed == NormPlace::pre;
    const auto slot = [&](bool shares, int ranks) {
      const auto bytes = [&](int64_t slots) {
        const ModelShape shape{.rows = 64, .recompute = recompute, .slots = slots, .sequence_parallel = shares};
        const Layout layout{.part = {}, .tensor_rank = 0, .tensor_size = ranks};
        return stage_bytes(spec, DType::f32, shape, *ops, 1, layout).activations;
      };
      return bytes(2) - bytes(1);
    };
    for (const int ranks : {2, 4}) {
      EXPECT_EQ(slot(true, ranks) * static_cast<size_t>(ranks), slot(false, 1));
      EXPECT_GT(slot(false, ranks) * static_cast<size_t>(ranks), slot(false, 1));
    }
  }
}

TEST(TensorGroup, SequenceRowsAreGatheredAndSummedToTheBitsOfASum) {
  constexpr int64_t kWidth = 6;
  for (const int ranks : {2, 3, 4})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int64_t rows : {1, 2, 7, 12}) {
        run_local(ranks, [&](RankContext& rank) {
          const auto ops = make_cpu_ops();
          TensorGroup group(rank.world, *ops,
                            {.dtype = dtype, .elements = rows * kWidth, .sequence_rows = rows, .width = kWidth});
          Context context;
          Arena arena(16384);
          const View whole = arena.take(dtype, {rows, kWidth}), mine = arena.take(dtype, {rows, kWidth});
          std::vector<float> values(static_cast<size_t>(rows * kWidth));
          for (size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(normal_at(static_cast<uint64_t>(rank.rank()), i));
          ops->cast(context, View(std::span(values), {rows, kWidth}), whole);
          const View contribution = group.contribution(rows, kWidth);
          ops->cast(context, whole, contribution);
          group.sum(context, whole);
          const RowShare share = group.share_of(rows);
          const View own = mine.rows_slice(0, share.count);
          group.scatter_sum(context, contribution, own);
          const View all = group.gathered(rows, kWidth);
          group.gather(context, own, all);
          EXPECT_EQ(std::memcmp(all.data(), whole.data(), all.bytes()), 0) << rows << " rows of " << ranks;
        });
      }
}

TEST(TensorGroup, GradientsArePackedAndSummed) {
  constexpr int64_t kLarge = (int64_t{1} << 18) + 5;  // more than travels at a time
  run_local(3, [&](RankContext& rank) {
    const auto ops = make_cpu_ops();
    TensorGroup group(rank.world, *ops, {.elements = 8, .sequence_rows = 4, .width = 2});
    Context context;
    std::vector<float> small(3), large(kLarge), last(7);
    for (std::vector<float>* values : {&small, &large, &last}) {
      for (size_t i = 0; i < values->size(); ++i)
        (*values)[i] = static_cast<float>(i % 1000) + static_cast<float>(rank.rank());
    }
    const View views[] = {View(std::span(small), {3}), View(std::span(large), {kLarge}), View(std::span(last), {7})};
    group.sum_gradients(context, views);
    for (const std::vector<float>* values : {&small, &large, &last}) {
      for (size_t i = 0; i < values->size(); ++i)
        ASSERT_EQ((*values)[i], 3 * static_cast<float>(i % 1000) + 3) << i << " of " << values->size();
    }
  });
}

TEST(TensorGroup, SumsHaveTheSameBitsOnEveryMember) {
  for (const int ranks : {2, 3, 4})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int64_t count : {1, 2, 7, 1000}) {
        std::vector<std::vector<float>> got(static_cast<size_t>(ranks));
        const auto value = [](int rank, int64_t i) {
          return static_cast<float>(normal_at(static_cast<uint64_t>(rank), static_cast<uint64_t>(i)));
        };
        run_local(ranks, [&](RankContext& rank) {
          const auto ops = make_cpu_ops();
          TensorGroup group(rank.world, *ops, {.dtype = dtype, .elements = count});
          Context context;
          std::vector<float> wide(static_cast<size_t>(count));
          for (int64_t i = 0; i < count; ++i) wide[static_cast<size_t>(i)] = value(rank.rank(), i);
          Arena arena(4096);
          const View x = arena.take(dtype, {count}), f32(wide.data(), DType::f32, {count});
          ops->cast(context, f32, x);
          group.sum(context, x);
          ops->cast(context, x, f32);
          got[static_cast<size_t>(rank.rank())] = wide;
          // Of n elements each member sends the parts of the others, and its own part's sum to them.
          const int64_t own = count * (rank.rank() + 1) / ranks - count * rank.rank() / ranks;
          EXPECT_EQ(group.bytes_sent(), static_cast<size_t>(count - own + own * (ranks - 1)) * size_of(dtype));
        });
        for (int64_t i = 0; i < count; ++i) {
          float sum = 0;
          for (int r = 0; r < ranks; ++r) sum += dtype == DType::bf16 ? to_float(to_bf16(value(r, i))) : value(r, i);
          if (dtype == DType::bf16) sum = to_float(to_bf16(sum));
          for (const auto& member : got) ASSERT_EQ(member[static_cast<size_t>(i)], sum);
        }
      }
}

constexpr std::chrono::milliseconds kLate{20};

/// Records which products ran during a sum.
class CallOrder final : public OpRecorder {
 public:
  bool recording() const override { return true; }
  Event mark() override { return {}; }
  void add(OpCall call) override { calls.push_back({std::move(call.op), Clock::now()}); }
  std::vector<std::pair<std::string, Clock::time_point>> calls;
};

// Messages that take long: the weights' gradients are done before them.
TEST(TensorGroup, InputGradientsTravelWhileWeightGradientsAreComputed) {
  const Spec spec = cut_spec();
  TestModel<float> whole(spec);
  TestBatch data(spec, {6, 4}, 10);
  run_local(2,
            [&](RankContext& rank) {
              const auto ops = make_cpu_ops();
              const ModelShape shape{.rows = kRows};
              Share share(whole, rank.rank(), 2);
              TensorGroup tensor(rank.world, *ops, tensor_sizes(spec, DType::f32, shape, *ops));
              Stage stage(spec, share.views, DType::f32, shape, *ops, 1, &tensor);
              CallOrder order;
              ops->report_to(&order);
              stage.loss_and_backward(data.batch, kStep, kScale, Write::overwrite, nullptr);
              ops->report_to(nullptr);
              int overlapped = 0;
              for (size_t i = 0; i + 2 < order.calls.size(); ++i) {
                const auto& [input, begun] = order.calls[i];
                if (!input.starts_with("linear_backward_input")) continue;
                // Where the sum had been waited for first, this would be one message later.
                for (size_t j = i + 1; j < std::min(i + 3, order.calls.size()); ++j) {
                  const auto& [weight, ended] = order.calls[j];
                  if (weight.starts_with("linear_backward_weight") && ended - begun < kLate) ++overlapped;
                }
              }
              EXPECT_GE(overlapped, 2 * spec.layers) << "qkv and mlp.in of every block";
            },
            {.delay = [](const LocalCall&) { return std::chrono::microseconds(kLate); }});
}

TEST(TensorGroup, AFailureReachesWhoWaitsForTheSum) {
  EXPECT_THROW(run_local(2,
                         [&](RankContext& rank) {
                           const auto ops = make_cpu_ops();
                           TensorGroup group(rank.world, *ops, {.elements = 10});
                           if (rank.rank() == 1) throw std::runtime_error("gone");
                           std::vector<float> x(10);
                           Context context;
                           group.sum(context, View(std::span(x), {10}));
                         }),
               std::runtime_error);
}

}  // namespace
}  // namespace trireme
