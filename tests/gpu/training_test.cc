// Whole training runs on the kernels of src/cuda, run by the executor, against the CPU's.

#include "base/hash.h"
#include "checkpoint/checkpoint_folder.h"
#include "cuda/cuda_ops.h"
#include "cuda/kernel.h"
#include "optim/parameter_hash.h"
#include "tests/gpu/plain_products.h"
#include "tests/train/local_run.h"
#include "tests/train/mesh_training.h"
#include "tests/train/noted_task.h"
#include "tests/train/sft/chat_training.h"
#include "train/trainer.h"

namespace trireme::mesh_training {
namespace {

std::unique_ptr<Ops> make_gpu_ops() {
  gpu::host::set_seed(5);
  return std::make_unique<CudaOps>(host_device(), make_plain_products());
}

Backend gpu_backend() {
  Backend backend = make_backend();
  backend.ops = make_gpu_ops();
  return backend;
}

struct GpuCase {
  Family family;
  DType dtype;
  bool dropout;
};

void PrintTo(const GpuCase& c, std::ostream* out) { *out << c.family.name; }

class GpuTraining : public testing::TestWithParam<GpuCase> {};

/// bf16, f16: kernels round other intermediate values than the CPU does.
TEST_P(GpuTraining, GivesTheLossesOfTheCpu) {
  const auto& [family, dtype, dropout] = GetParam();
  Spec spec = family.spec();
  spec.layers = 2;
  if (!spec.attention_layers.empty()) spec.attention_layers = "WF";
  const DType of_cpu = dtype == DType::f16 ? DType::f32 : dtype;  // which has no operators in f16
  Layouts layouts{.mesh = {.data = 1}, .dropout = dropout, .dtype = of_cpu, .global = 4};
  const Outcome want = train(spec, layouts);
  layouts.make_ops = make_gpu_ops;
  layouts.dtype = dtype;
  if (dtype == DType::f16) layouts.loss_scale = 1024;
  const Outcome got = train(spec, layouts);
  const double tolerance = dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 5e-3 : 2e-2;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], tolerance * want.losses[i]) << "step " << i + 1;
    EXPECT_NEAR(got.norms[i], want.norms[i], 5 * tolerance * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_NEAR(got.evaluation, want.evaluation, tolerance * want.evaluation);
  EXPECT_LT(want.losses.back(), 0.99 * want.losses.front()) << "it learns";
}

std::vector<GpuCase> cases() {
  std::vector<GpuCase> all;
  for (const Family& family : {Family{"gpt2", gpt2}, Family{"neox", neox}, Family{"opt", opt}, Family{"bert", bert},
                               Family{"llama", llama}, Family{"gemma", gemma}})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) all.push_back({family, dtype, false});
  all.push_back({{"gpt2", gpt2}, DType::f32, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Families, GpuTraining, testing::ValuesIn(cases()), [](const auto& parameter) {
  return std::string(parameter.param.family.name) + "_" + std::string(trireme::name_of(parameter.param.dtype)) +
         (parameter.param.dropout ? "_dropout" : "");
});

/// A GPU that waits for its host, for memory or for a batch computes less of the time.
TEST(GpuSteps, AllocateNothingWaitOnceAndGetBatchesAhead) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(trireme::name_of(dtype));
    Layouts layouts{.mesh = {.data = 1}, .dropout = true, .dtype = dtype, .micro = 2, .global = 4, .clip = 0.1};
    layouts.make_ops = make_gpu_ops;
    if (dtype == DType::f16) layouts.loss_scale = 1024;
    Spec spec = gpt2();
    spec.layers = 2;
    const Outcome want = train(spec, layouts);
    layouts.apart = true;
    const Outcome got = train(spec, layouts);
    expect_same_bits(got, want);
    EXPECT_GT(*std::ranges::min_element(got.norms), layouts.clip) << "every step clips";
    ASSERT_GT(got.counts.size(), 2U);
    for (size_t i = 0; i < got.counts.size(); ++i) {
      SCOPED_TRACE(i + 1);
      const auto& [allocations, waits, before, after, pageable] = got.counts[i];
      EXPECT_EQ(waits, 1) << "for the verdict";
      EXPECT_EQ(before, 1 + (i == 0 ? 1 : 0) + (i + 1 < got.counts.size() ? 1 : 0))
          << "the batches that follow the first one, and the first one of the next step";
      EXPECT_EQ(after, 0);
      if (i == 0) continue;
      EXPECT_EQ(allocations, 0);
      EXPECT_EQ(pageable, 0);
    }
  }
}

/// Adapters of queries, values, gates and of whole linears, beside frozen weights.
TEST(GpuAdapterTraining, GivesTheLossesOfTheCpu) {
  Spec spec = llama();
  spec.layers = 2;
  spec.adapters =
      "attention.qkv.query in 0-1: rank 4, scale 2; attention.qkv.value in 0-1: rank 3, scale 1; mlp.in.gate in 1: "
      "rank "
      "4, scale 0.5; mlp.out in 0-1: rank 8, scale 2";
  spec.adapter_dropout = 0.2f;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Layouts layouts{.mesh = {.data = 1}, .dtype = dtype, .only = "*.lora_A,*.lora_B", .global = 4};
    const Outcome want = train(spec, layouts);
    layouts.make_ops = make_gpu_ops;
    const Outcome got = train(spec, layouts);
    const double tolerance = dtype == DType::f32 ? 2e-5 : 2e-2;
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t i = 0; i < want.losses.size(); ++i) {
      EXPECT_NEAR(got.losses[i], want.losses[i], tolerance * want.losses[i]) << "step " << i + 1;
      EXPECT_NEAR(got.norms[i], want.norms[i], 5 * tolerance * want.norms[i]) << "step " << i + 1;
    }
    EXPECT_LT(want.losses.back(), want.losses.front()) << "it learns";
  }
}

/// The same with magnitudes, without dropout.
TEST(GpuAdapterTraining, GivesTheLossesOfTheCpuWithMagnitudes) {
  Spec spec = llama();
  spec.layers = 2;
  spec.adapters =
      "attention.qkv.query in 0-1: rank 4, scale 2, magnitudes; mlp.in.gate in 1: rank 4, scale 0.5, magnitudes; "
      "mlp.out in 0-1: rank 8, scale 2, magnitudes";
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Layouts layouts{.mesh = {.data = 1}, .dtype = dtype, .only = "*.lora_A,*.lora_B,*.lora_magnitude", .global = 4};
    const Outcome want = train(spec, layouts);
    layouts.make_ops = make_gpu_ops;
    const Outcome got = train(spec, layouts);
    const double tolerance = dtype == DType::f32 ? 2e-5 : 2e-2;
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t i = 0; i < want.losses.size(); ++i)
      EXPECT_NEAR(got.losses[i], want.losses[i], tolerance * want.losses[i]) << "step " << i + 1;
    EXPECT_LT(want.losses.back(), want.losses.front()) << "it learns";
  }
}

/// Rows that conversations share, of which the head computes those that count.
TEST(GpuChatTraining, GivesTheLossesOfTheCpu) {
  for (const NormKind norm : {NormKind::layer, NormKind::rms}) {
    chat_training::Layouts layouts{.micro = 2, .position = Position::rotary, .norm = norm};
    const chat_training::Outcome want = chat_training::train(layouts);
    layouts.make_ops = make_gpu_ops;
    expect_near(chat_training::train(layouts), want, "on the executor", 2e-5);
  }
}

TEST(GpuPreferenceTraining, GivesTheLossesOfTheCpu) {
  chat_training::Layouts layouts{
      .micro = 2, .position = Position::rotary, .norm = NormKind::rms, .pairs = PairLossForm{}};
  const chat_training::Outcome want = chat_training::train(layouts);
  layouts.make_ops = make_gpu_ops;
  expect_near(chat_training::train(layouts), want, "on the executor", 2e-5);
}

/// A run in f16 whose first steps overflow.
class LossScaling : public testing::Test {
 protected:
  static constexpr int64_t kOverflows = 10;

  Config config(int64_t steps) const {
    Config config = run_config(folder_ / "run");
    config.precision.dtype = DType::f16;
    config.precision.loss_scale_initial = 0x1p30;
    config.precision.loss_scale_hysteresis = 1;
    config.precision.loss_scale_window = 8;
    config.optim.warmup_steps = 4;
    config.optim.schedule = RateCourse::constant;
    config.run.max_skips = 3;
    config.run.steps = steps;
    config.checkpoint.every = 0;
    return config;
  }

  struct Result {
    RunCounters progress;
    std::vector<double> losses;
    std::vector<uint16_t> weights;  ///< bits
  };
  Result train(const Config& wanted, std::optional<CheckpointFolder> resume = {}) const {
    Result result;
    run_local(1, [&](RankContext& rank) {
      LocalRun of(
          rank, wanted, std::move(resume), [] {}, gpu_backend());
      NotedTask task(run_batch(rank));
      EXPECT_TRUE(Trainer(of.work(), task, [] { return ""; }).train());
      result.progress = of.run.progress;
      result.losses = task.step_losses;
      for (const f16_t weight : of.run.state.weights().values<f16_t>()) result.weights.push_back(weight.bits);
    });
    return result;
  }

  TemporaryFolder folder_;
};

TEST_F(LossScaling, OverflowsLowerTheScaleAndCostNothingElse) {
  const Result result = train(config(26));
  const RunCounters& progress = result.progress;
  EXPECT_GE(progress.overflows, kOverflows) << "2^30 times the gradients of tokens is beyond f16";
  EXPECT_EQ(progress.skipped, progress.overflows);
  EXPECT_EQ(progress.updates, 26 - progress.overflows);
  EXPECT_EQ(progress.scheduled_steps(), progress.updates);
  EXPECT_EQ(progress.consecutive_skips, 0);
  EXPECT_LT(progress.loss_scale->scale, 0x1p24);
  EXPECT_GT(progress.loss_scale->scale, 1);
  EXPECT_EQ(train(config(kOverflows)).weights, train(config(1)).weights) << "an overflow changes no weight";
  EXPECT_LT(result.losses.back(), 0.95 * result.losses.front()) << "it learns";
}

TEST_F(LossScaling, AResumedRunHasTheBitsOfOneThatWasNotInterrupted) {
  const Result whole = train(config(26));
  const TemporaryFolder other;
  Config first = config(19);
  first.run.dir = other / "run";
  const Result half = train(first);
  EXPECT_GT(half.progress.updates, 0);
  first.run.steps = 26;
  const Result rest = train(first, open_checkpoint(other / "run/step-00000019"));
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.progress.loss_scale, whole.progress.loss_scale);
  EXPECT_EQ(rest.progress.overflows, whole.progress.overflows);
}

TEST_F(LossScaling, SnapshotsMoveBetweenF16AndOtherTypes) {
  (void)train(config(19));
  run_local(1, [&](RankContext& rank) {
    Config f32 = config(20);
    f32.precision.dtype = DType::f32;
    const CheckpointFolder f16_snapshot = open_checkpoint(folder_ / "run/step-00000019");
    const LocalRun of(rank, f32, f16_snapshot);
    EXPECT_EQ(of.run.progress.loss_scale, std::nullopt);
    EXPECT_GT(of.run.progress.overflows, 0) << "the schedule keeps its place";
    EXPECT_EQ(f16_snapshot.facts.parameter_hash, hex64(parameter_hash(of.run.state, of.run.table)))
        << "the masters, to the bit";
  });
}

}  // namespace
}  // namespace trireme::mesh_training
