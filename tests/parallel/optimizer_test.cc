#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/error.h"
#include "comm/proof.h"
#include "optim/parameter_hash.h"
#include "tests/support/norm_values.h"
#include "tests/support/parallel.h"
#include "tests/support/tiny_model.h"

namespace trireme {
namespace {

/// What micro-batch `micro` of a step adds to the gradients.
std::vector<float> micro_gradients(int64_t n, int64_t step, int micro) {
  std::mt19937 random(static_cast<uint32_t>(100 * step + micro));
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values)
    v = std::ldexp(static_cast<float>(random()) * 0x1p-31f - 1.0f, -static_cast<int>(random() % 12));
  return values;
}

/// One trainer: a state, an optimizer over a group, and steps on made-up gradients.
class Trainer {
 public:
  Trainer(Communicator& group, DType weights, DType wire, size_t bucket_bytes)
      : verdicts_(group.split(0, group.rank())),
        state_(table_, weights, true),
        optimizer_(table_, state_, *ops_, group, options(wire, bucket_bytes)) {
    initialize(state_, table_, 5);
  }

  /// Adds the given micro-batches as backward does, reports ranges as backward does, and updates.
  double step(int64_t t, const std::vector<int>& micros) {
    const auto gradients = state_.gradients().values<float>();
    for (size_t k = 0; k < micros.size(); ++k) {
      const auto values = micro_gradients(table_.gradient_count(), t, micros[k]);
      if (k + 1 == micros.size()) optimizer_.begin_exchange();
      int64_t begin = 0;
      for (const int64_t end : {table_.gradient_count() / 3, table_.flat_count(), table_.gradient_count()}) {
        for (int64_t i = begin; i < end; ++i) {
          const auto at = static_cast<size_t>(i);
          gradients[at] = k == 0 ? values[at] : gradients[at] + values[at];
        }
        optimizer_.ready({begin, end});
        begin = end;
      }
    }
    const double norm = norm_of(finish_exchange(optimizer_, context_), *verdicts_);
    optimizer_.update(context_, 1e-3, t, norm);
    return norm;
  }

  uint64_t hash() const { return parameter_hash(state_, table_); }
  TrainingState& state() { return state_; }

 private:
  static OptimizerOptions options(DType wire, size_t bucket_bytes) {
    OptimizerOptions options;
    options.adamw.weight_decay = 0.1f;
    options.wire = wire;
    options.bucket_bytes = bucket_bytes;
    return options;
  }

  std::unique_ptr<Communicator> verdicts_;  ///< the other one is the optimizer's thread's
  ParameterTable table_{tiny_spec()};
  TrainingState state_;
  std::unique_ptr<Ops> ops_ = make_cpu_ops();
  Context context_;
  Optimizer optimizer_;
};

class OptimizerOverRanks : public testing::TestWithParam<DType> {
 protected:
  int rank() { return test_process().rank(); }
  int size() { return test_process().size(); }
  std::unique_ptr<Communicator> group_ = test_process().world().split(0, test_process().rank());
  Scalars scalars_{test_process().world()};
};

TEST_P(OptimizerOverRanks, WithAnF32WireRanksHoldTheBitsOfOneRankThatAccumulates) {
  for (const size_t bucket_bytes : {500ul, 1'000'000ul}) {
    const auto alone = make_single();
    Trainer reference(*alone, GetParam(), DType::f32, bucket_bytes),
        trainer(*group_, GetParam(), DType::f32, bucket_bytes);
    std::vector<int> all(static_cast<size_t>(size()));
    for (int r = 0; r < size(); ++r) all[static_cast<size_t>(r)] = r;
    for (int64_t t = 1; t <= 5; ++t) {
      EXPECT_EQ(trainer.step(t, {rank()}), reference.step(t, all)) << "step " << t;
      ASSERT_EQ(trainer.hash(), reference.hash()) << "step " << t;
    }
  }
}

TEST_P(OptimizerOverRanks, WithABf16WireAllRanksHoldTheSameBitsWithAnyBuckets) {
  Trainer small(*group_, GetParam(), DType::bf16, 300);
  const auto second_group = test_process().world().split(0, rank());
  Trainer large(*second_group, GetParam(), DType::bf16, 1'000'000);
  for (int64_t t = 1; t <= 5; ++t) {
    EXPECT_EQ(small.step(t, {rank(), size() + rank()}), large.step(t, {rank(), size() + rank()}));
    EXPECT_EQ(small.hash(), large.hash());
    prove_same_parameters(scalars_, "test", small.hash(), t);
  }
}

TEST_P(OptimizerOverRanks, AFlippedBitOnOneRankIsFoundAndTheRankNamed) {
  if (size() < 3) GTEST_SKIP() << "needs a majority";
  Trainer trainer(*group_, GetParam(), DType::bf16, 1000);
  trainer.step(1, {rank()});
  auto* bytes = static_cast<unsigned char*>(trainer.state().weights().data());
  if (rank() == 1) bytes[100] ^= 4;
  const uint64_t hash = trainer.hash();
  try {
    prove_same_parameters(scalars_, "node" + std::to_string(rank()), hash, 1);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find("ranks hold different parameters after step 1: rank 1 on node1 differs"), 0u)
        << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, OptimizerOverRanks, testing::Values(DType::f32, DType::bf16),
                         [](const auto& weights) { return std::string(name_of(weights.param)); });

TEST(OptimizerOnReferenceOperators, TrainsOnOneRankOnly) {
  if (test_process().size() == 1) GTEST_SKIP() << "needs several ranks";
  const ParameterTable table(tiny_spec());
  TrainingState state(table, DType::f64, true);
  const auto ops = make_reference_ops();
  try {
    const Optimizer optimizer(table, state, *ops, test_process().world(), {});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::config);
    EXPECT_EQ(e.what(), fmt::format("cannot exchange gradients of type f64 between {} ranks; the reference operators "
                                    "train on one rank only",
                                    test_process().size()));
  }
}

}  // namespace
}  // namespace trireme
