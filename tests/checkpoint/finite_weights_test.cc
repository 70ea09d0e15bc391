#include "checkpoint/finite_weights.h"

#include <limits>

#include "tests/checkpoint/small_run.h"
#include "tests/support/expect_error.h"

namespace trireme {
namespace {

class FiniteWeights : public testing::TestWithParam<DType> {
 protected:
  FiniteWeights() : state_(table_, GetParam(), true) { fill(state_, table_, 3); }
  void set(const std::string& name, size_t at, float value) {
    const Parameter& p = table_.find(name);
    std::vector<float> values(static_cast<size_t>(p.stored_shape.count()));
    state_.read_master(p, values);
    values[at] = value;
    state_.write_master(p, values);
  }
  ParameterTable table_{small_spec()};
  TrainingState state_;
};

TEST_P(FiniteWeights, AreNotMentioned) {
  set("norm.weight", 0, 3e38f);
  EXPECT_EQ(describe_not_finite(state_, table_), "");
}

TEST_P(FiniteWeights, OnesThatAreNotAreNamedAndCounted) {
  set("block.1.mlp.in.weight", 17, std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(describe_not_finite(state_, table_), "block.1.mlp.in.weight (1 of 192 values)");
  set("norm.weight", 0, -std::numeric_limits<float>::infinity());
  EXPECT_THAT(describe_not_finite(state_, table_), testing::HasSubstr(" and 1 more of "));
  EXPECT_ERROR(require_finite(state_, table_, "run/step-00000035", "name another"), ErrorKind::numeric,
               "run/step-00000035 holds NaN or infinite values: norm.weight (1 of 8 values) and 1 more of ");
}

TEST_P(FiniteWeights, MomentsAreLookedAtToo) {
  const std::vector<float> infinite{std::numeric_limits<float>::infinity()};
  state_.write_state(kAdamV, table_.find("norm.bias"), 0, infinite);
  EXPECT_EQ(describe_not_finite(state_, table_), "norm.bias, adam.v (1 of 8 values)");
}

INSTANTIATE_TEST_SUITE_P(Types, FiniteWeights, testing::Values(DType::f32, DType::bf16),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace trireme
