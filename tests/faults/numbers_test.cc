// Numbers that are none.

#include <limits>

#include "tests/faults/fault_fixture.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

class Numbers : public FaultFixture {
 protected:
  /// One more snapshot of the run, in which a weight is not a number.
  void poison(const std::string& run) const {
    const CheckpointFolder good = open_checkpoint(path(run));
    const ParameterTable table(good.facts.spec);
    TrainingState state(table, DType::f32, true);
    load_checkpoint(good, table, state);
    const Parameter& parameter = table.find("embedding.token.weight");
    std::vector<float> values(static_cast<size_t>(parameter.stored_shape.count()));
    state.read_master(parameter, values);
    std::fill(values.begin(), values.end(), std::numeric_limits<float>::quiet_NaN());
    state.write_master(parameter, values);
    const auto group = make_single();
    CheckpointWriter writer(path(run), table, state, *group);
    CheckpointFacts facts = good.facts;
    ++facts.progress.step;
    facts.progress.samples += 12;
    writer.begin(facts);
    writer.publish(0, false);
  }
};

TEST_F(Numbers, StepsThatAreNotFiniteAreSkippedAndAfterSoManyTheSamplesAreWrittenOut) {
  run(trireme_command(train("run", {"--run.steps", "3", "--optim.decay-steps", "20"})));
  poison("run");
  std::vector<std::vector<std::string>> commands = {trireme_command(train("run", {"--run.max-skips", "3"}))};
  if (has_mpi()) commands.push_back(mpirun_command(2, train("run", {"--run.max-skips", "3"})));
  for (const auto& command : commands) {
    std::filesystem::remove(path("run") + "/bad-samples.json");
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 1) << outcome.output;
    EXPECT_EQ(count_of(outcome.output, "is not finite; samples "), 3) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("not finite 3 steps in a row, up to step 7 (samples 48 to 83; see " +
                                          path("run") + "/bad-samples.json)"));
    const std::string list = read_text(path("run") + "/bad-samples.json");
    EXPECT_THAT(list, HasSubstr("\"first_sample\": 48"));
    EXPECT_THAT(list, HasSubstr("\"last_sample\": 83"));
    EXPECT_EQ(count_of(list, "\"step\""), 3);
  }
}

}  // namespace
}  // namespace trireme
