#pragma once
// Steps of a tiny model on a rank that is a thread, over one session or several.

#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "tests/support/local_ranks.h"
#include "tests/support/tiny_model.h"
#include "train/step.h"

namespace trireme {

constexpr int64_t kGlobal = 8, kSequence = 8;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

inline Spec dropping_spec() {
  Spec spec = tiny_spec();
  spec.embedding_dropout = spec.attention_dropout = spec.residual_dropout = 0.2f;
  return spec;
}

inline std::vector<uint16_t> some_tokens() {
  std::vector<uint16_t> tokens(500);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i * i % 13);
  return tokens;
}

/// What of a run survives its sessions, on one rank.
class Trainee {
 public:
  explicit Trainee(DType wire, const Spec& spec = dropping_spec())
      : spec_(spec), table_(spec), state_(table_, DType::f32, true), wire_(wire) {
    initialize(state_, table_, 5);
  }
  Trainee(const Trainee& other) : Trainee(other.wire_, other.spec_) {
    steps_ = other.steps_;
    const auto copy = [](ConstView from, View to) { std::memcpy(to.data(), from.data(), from.bytes()); };
    copy(other.state_.weights(), state_.weights());
    for (size_t i = 0; i < state_.states().size(); ++i)
      copy(other.state_.states()[i].values, state_.states()[i].values);
  }

  /// So many more steps over a new session, in micro-batches of `micro` samples. The last step's result.
  StepResult train(const RankContext& rank, int64_t count, int64_t micro, double most_loss = kNoLimit) {
    const Backend backend = make_backend();
    OptimizerOptions options;
    options.wire = wire_;
    const std::unique_ptr<Session> made = Session::make({.spec = spec_,
                                                         .dtype = DType::f32,
                                                         .shape = {.rows = micro * kSequence},
                                                         .mesh = {.data = rank.size()},
                                                         .optimizer = options},
                                                        table_, state_, *backend.ops, rank);
    Session& session = *made;
    const WindowSource windows(tokens_, 3);
    SampleBatches batches(windows, {.global = kGlobal,
                                    .micro_batches = kGlobal / rank.size() / micro,
                                    .sequence = kSequence,
                                    .ranks = rank.size(),
                                    .rank = rank.rank()});
    TrainStep step(session, batches, 7);
    StepResult result;
    for (int64_t i = 0; i < count; ++i, ++steps_)
      result = step.run({.step = steps_,
                         .consumed = static_cast<uint64_t>(steps_ * kGlobal),
                         .update = steps_ + 1,
                         .learning_rate = 1e-2,
                         .most_loss = most_loss,
                         .saved = saved});
    return result;
  }

  std::vector<float> weights() const {
    const auto values = state_.weights().values<float>();
    return {values.begin(), values.end()};
  }
  TrainingState& state() { return state_; }

  bool saved = true;

 private:
  Spec spec_;
  ParameterTable table_;
  TrainingState state_;
  DType wire_;
  std::vector<uint16_t> tokens_ = some_tokens();
  int64_t steps_ = 0;
};

}  // namespace trireme
