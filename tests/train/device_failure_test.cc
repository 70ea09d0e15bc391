// A fault of a device, after which each of its calls fails, at every call of a run: it ends the run as an error, and
// nothing on the way out ends the process.

#include "checkpoint/snapshot/checkpoint.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/mesh_training.h"

namespace trireme::mesh_training {
namespace {

/// While it exists, every call from the n-th on fails.
class FailsFrom {
 public:
  explicit FailsFrom(int64_t call) { apart_faults.fails_from = apart_faults.calls + call; }
  ~FailsFrom() { apart_faults.fails_from = std::numeric_limits<int64_t>::max(); }
  FailsFrom(const FailsFrom&) = delete;
  FailsFrom& operator=(const FailsFrom&) = delete;
};

/// Returns how many calls the run has.
int64_t fail_everywhere(const Layouts& layouts, int64_t stride) {
  Spec spec = gpt2();
  spec.layers = 2;  // one for each stage
  const int64_t before = apart_faults.calls;
  train(spec, layouts);
  const int64_t calls = apart_faults.calls - before;
  for (int64_t call = 1; call < calls; call += stride) {
    const FailsFrom failing(call);
    try {
      train(spec, layouts);
      EXPECT_GT(call, calls * 9 / 10) << "of " << calls << ": the error was lost, and not at the end";
    } catch (const Error&) {  // of the device, or that another rank's failed
    }
  }
  return calls;
}

TEST(DeviceFailure, EndsAStepAsAnErrorAtEveryCall) {
  EXPECT_GT(fail_everywhere({.mesh = {.data = 1}, .apart = true, .global = 2, .steps = 1}, 3), 50);
}

TEST(DeviceFailure, EndsConnectedRanksAsAnErrorAtEveryCall) {
  const Layouts layouts{.mesh = {.data = 2}, .connected = true, .global = 2, .steps = 1};
  EXPECT_GT(fail_everywhere(layouts, 9), 100);
  for (const MeshShape& mesh : {MeshShape{.data = 1, .tensor = 2}, MeshShape{.data = 1, .pipeline = 2}}) {
    Layouts others = layouts;
    others.mesh = mesh;
    fail_everywhere(others, 29);
  }
}

TEST(DeviceFailure, LeavesASnapshotAsAnError) {
  const TemporaryFolder dir;
  run_local(1, [&](RankContext& rank) {
    ApartDevice device;
    const ParameterTable table(gpt2());
    TrainingState state(table, DType::f32, true, {}, device);
    initialize(state, table, 5);
    CheckpointWriter writer(dir.path(), table, state, rank.world);
    omp_set_num_threads(2);
    const FailsFrom failing(5);
    EXPECT_ERROR(writer.begin({}), ErrorKind::io, "an illegal memory access was encountered");
  });
}

}  // namespace
}  // namespace trireme::mesh_training
