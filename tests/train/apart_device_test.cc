// What reads and writes a training state, on a device that the program does not reach.

#include <gtest/gtest.h>

#include <csignal>

#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/finite_weights.h"
#include "optim/parameter_hash.h"
#include "tensor/pinned.h"
#include "tests/support/apart_device.h"
#include "tests/support/apart_ops.h"
#include "tests/support/expect_error.h"
#include "tests/support/local_ranks.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tiny_model.h"
#include "train/guard/healing.h"

namespace trireme {
namespace {

TEST(ApartDevice, RefusesTheHost) {
  ApartDevice device;
  Arena memory(1000, device);
  const View x = memory.take(DType::f32, {4, 3});
  for (const View& view : {x, x.rows_slice(1, 2), x.reshape({12}), x.first_as({2})})
    EXPECT_ERROR(view.as<float>(), ErrorKind::shape,
                 "a tensor of device apart cannot be read or written on the host; copy it there first");
  EXPECT_EXIT(static_cast<volatile char*>(x.data())[0] = 1, testing::KilledBySignal(SIGSEGV), "");
  const auto ops = make_cpu_ops();
  Context context;
  EXPECT_ERROR(ops->activation(context, x, Activation::relu, x), ErrorKind::shape, "a tensor of device apart");
}

TEST(ApartDevice, RunsWhatIsIssuedLaterAndInOrder) {
  ApartDevice device;
  ApartOps ops(device, make_cpu_ops());
  Context context{.stream = &device.stream()};
  Arena memory(1000, device);
  const View x = memory.take(DType::f32, {3}), y = memory.take(DType::f32, {3});
  std::vector<float> values{1, 2, 3};
  device.stream().copy(View(std::span(values), {3}), x);
  values.assign(3, 0);  // the copy has its own
  for (int i = 0; i < 100; ++i) ops.add(context, x, y);
  const Event added = device.stream().record();
  EXPECT_FALSE(added.reached());
  added.wait();
  EXPECT_TRUE(added.reached());
  EXPECT_EQ(HostValues<float>(y).get()[2], 300.0f);
}

TEST(ApartDevice, AStreamWaitsForAnotherWhileTheHostGoesOn) {
  ApartDevice device;
  ApartOps ops(device, make_cpu_ops());
  const auto other = device.make_stream();
  Context context{.stream = &device.stream()};
  Arena memory(1000, device);
  const View x = memory.take(DType::f32, {2}), y = memory.take(DType::f32, {2});
  std::vector<float> values{1, 2};
  device.stream().copy(View(std::span(values), {2}), x);
  for (int i = 0; i < 100; ++i) ops.add(context, x, y);
  device.reset_counts();
  const Event added = device.stream().record();
  other->wait(added);
  const PinnedMemory read(y.bytes(), device);
  other->copy_later(y, View(read.data(), DType::f32, {2}));
  EXPECT_EQ(device.counts().host_waits, 0);
  EXPECT_FALSE(added.reached());
  other->finish();
  EXPECT_EQ(View(read.data(), DType::f32, {2}).values<float>()[1], 200.0f);
}

TEST(ApartDevice, CopiesThatRunLaterNeedPinnedMemory) {
  ApartDevice device;
  Arena memory(1000, device);
  const View x = memory.take(DType::f32, {3});
  std::vector<float> values{1, 2, 3};
  const View pageable{std::span(values), {3}};
  const char* const message = "a copy that runs later needs pinned memory on the host";
  EXPECT_ERROR(device.stream().copy_later(pageable, x), ErrorKind::shape, message);
  EXPECT_ERROR(device.stream().copy_later(x, pageable), ErrorKind::shape, message);
  const PinnedMemory pinned(8, device);
  EXPECT_ERROR(device.stream().copy_later(x, View(pinned.data(), DType::f32, {3})), ErrorKind::shape, message);
}

/// More pieces than buffers, and a last one that is shorter.
TEST(ApartDevice, ReadsLongTensorsInPieces) {
  ApartDevice device;
  constexpr int64_t kCount = 4'200'000;
  Arena memory(kCount * 8, device);
  const View x = memory.take(DType::f32, {kCount}), y = memory.take(DType::i16, {kCount});
  std::vector<float> values(kCount);
  std::vector<int16_t> others(kCount);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i), others[i] = static_cast<int16_t>(i);
  device.stream().copy(View(std::span(values), x.shape()), x);
  device.stream().copy(View(std::span(others), y.shape()), y);
  PieceReader reader(device);
  for (const bool both : {false, true}) {
    std::vector<float> got(kCount);
    int64_t next = 0, pieces = 0;
    reader.read(x, both ? y : View(), [&](int64_t first, ConstView of_x, ConstView of_y) {
      EXPECT_EQ(first, next);
      EXPECT_EQ(of_y.empty(), !both);
      std::ranges::copy(of_x.values<float>(), got.begin() + first);
      if (both) {
        EXPECT_TRUE(std::ranges::equal(
            of_y.values<int16_t>(),
            std::span(others).subspan(static_cast<size_t>(first), static_cast<size_t>(of_y.count()))));
      }
      next += of_x.count();
      ++pieces;
    });
    EXPECT_EQ(next, kCount);
    EXPECT_GT(pieces, 3);
    EXPECT_EQ(got, values);
  }
}

/// A state of the tiny model on the device and its twin on the host.
struct Twins {
  explicit Twins(DType dtype) : there(table, dtype, true, {}, device), here(table, dtype, true) {
    for (TrainingState* state : {&there, &here}) {
      initialize(*state, table, 5);
      for (const Parameter& parameter : table.all()) {
        std::vector<float> moments(static_cast<size_t>(parameter.stored_shape.count()));
        for (size_t i = 0; i < moments.size(); ++i) moments[i] = 1.0f / static_cast<float>(i + 1);
        state->write_state(kAdamM, parameter, 0, moments);
        state->write_state(kAdamV, parameter, 0, moments);
      }
    }
  }
  ParameterTable table{tiny_spec()};
  ApartDevice device;
  TrainingState there, here;
};

bool same_values(const TrainingState& a, const TrainingState& b) {
  const std::pair<ConstView, ConstView> arrays[] = {{a.weights(), b.weights()},
                                                    {a.remainder(), b.remainder()},
                                                    {a.state(kAdamM), b.state(kAdamM)},
                                                    {a.state(kAdamV), b.state(kAdamV)}};
  return std::ranges::all_of(arrays, [](const auto& pair) {
    return std::ranges::equal(HostBytes(pair.first).get(), HostBytes(pair.second).get());
  });
}

TEST(ApartDevice, HoldsAStateThatIsDrawnHashedSavedAndLoaded) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(name_of(dtype));
    Twins twins(dtype);
    EXPECT_TRUE(same_values(twins.there, twins.here));
    twins.device.reset_counts();
    ApartOps ops(twins.device, make_cpu_ops());
    EXPECT_EQ(parameter_hash(twins.there, twins.table, ops), parameter_hash(twins.here, twins.table));
    EXPECT_EQ(twins.device.counts().host_waits, 1) << "for the sums of all parameters";
    const TemporaryFolder folder;
    const auto alone = make_single();
    CheckpointWriter writer(folder.path(), twins.table, twins.there, *alone);
    writer.begin({});
    ASSERT_TRUE(writer.publish(0));
    for (TrainingState* state : {&twins.there, &twins.here}) {
      TrainingState loaded(twins.table, dtype, true, {}, *(state == &twins.there ? &twins.device : &host_device()));
      load_checkpoint(open_checkpoint(folder.path()), twins.table, loaded);
      EXPECT_TRUE(same_values(loaded, *state));
    }
    EXPECT_EQ(describe_not_finite(twins.there, twins.table), "");
    const std::vector<float> bad{NAN};
    twins.there.write_weights(3, bad);
    EXPECT_NE(describe_not_finite(twins.there, twins.table), "");
  }
}

/// More than one piece, and a last one that is shorter.
TEST(ApartDevice, DrawsLongTensorsInPieces) {
  Spec spec = tiny_spec();
  spec.vocabulary = spec.vocabulary_rows = (int64_t{1} << 20) / spec.width + 1000;
  const ParameterTable table(spec);
  ApartDevice device;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TrainingState there(table, dtype, false, {}, device), here(table, dtype, false);
    initialize(here, table, 5);
    device.reset_counts();
    initialize(there, table, 5);
    EXPECT_LE(device.counts().host_waits, 5 * std::ssize(table.all())) << "a few for each, not for small pieces";
    EXPECT_TRUE(same_values(there, here)) << name_of(dtype);
  }
}

TEST(ApartDevice, HealsAReplicaThatDiffers) {
  run_local(3, [](RankContext& rank) {
    Twins twins(DType::bf16);
    ApartCommunicator world(twins.device, rank.world);
    if (rank.rank() == 1) twins.there.write_weights(7, std::vector<float>{9, 9});
    Mesh mesh(world, {.data = 3});
    Scalars scalars(mesh.world());
    ApartOps ops(twins.device, make_cpu_ops());
    check_parameters(mesh, scalars, "host", twins.there, twins.table, ops, 4, true);
    EXPECT_TRUE(same_values(twins.there, twins.here));
  });
}

}  // namespace
}  // namespace trireme
