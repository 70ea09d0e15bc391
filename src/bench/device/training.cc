#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "base/private_folder.h"
#include "base/rng.h"
#include "base/time.h"
#include "bench/device/checks.h"
#include "bench/training.h"
#include "checkpoint/checkpoint_folder.h"
#include "comm/heartbeat.h"
#include "data/sample_source.h"
#include "optim/parameter_hash.h"

namespace trireme::device_check {
namespace {

constexpr double kLearningRate = 1e-4;
/// Relative, of a loss. On an H100 losses of 30 steps of this model differed by 3e-5 in f32 and by 1.2e-2 in bf16.
constexpr double kTolerance32 = 3e-4, kTolerance16 = 3e-2;
constexpr int64_t kFewTokens = 1000, kTokens = 1 << 16;
constexpr int64_t kPart = 2;  // steps between two moves

/// Text that can be learned: each id is followed by one of three.
std::vector<TokenId> learnable(const Spec& spec) {
  std::vector<TokenId> ids(kTokens);
  RandomStream random(3);
  const auto kinds = static_cast<uint64_t>(std::min(kFewTokens, spec.vocabulary));
  uint64_t id = 1;
  for (TokenId& one : ids) {
    id = (id * 5 + 7 + random.below(3)) % kinds;
    one = static_cast<TokenId>(id);
  }
  return ids;
}

/// This rank as a separate job.
struct Alone {
  explicit Alone(const RankContext& rank)
      : context{.world = *world,
                .host = rank.host,
                .hosts = HostMap::one_host(1),
                .log_name = rank.log_name,
                .heartbeat = &heartbeat,
                .threads = rank.threads} {
    world->report_to(&heartbeat);
  }
  std::unique_ptr<Communicator> world = make_single();
  Heartbeat heartbeat;
  RankContext context;
};

/// Training of a model on one side, from its first weights or from a snapshot.
class Trained {
 public:
  Trained(const Bench& bench, const Alone& alone, const Spec& spec, DType dtype, Ops& ops, const WindowSource& windows)
      : shape_{.global = bench.sizes.batch, .micro_batches = 1, .sequence = bench.sizes.sequence},
        plan_(plan_rank({.spec = spec, .mesh = {.data = 1}}, measured_config(dtype), step_size(shape_),
                        planned(alone.context))),
        model_(plan_, ops),
        alone_(alone),
        windows_(windows) {}

  /// The times of the next step.
  StepTime step() {
    if (!training_) {
      training_.emplace(model_, alone_.context, plan_, shape_.global, kLearningRate,
                        std::make_unique<SampleBatches>(windows_, shape_));
      training_->begin_after(steps_);
    }
    ++steps_;
    return training_->run();
  }
  /// The folder of the snapshot. Throws Error::io.
  CheckpointFolder save(const std::string& folder) {
    CheckpointWriter writer(folder, model_.table, model_.state, *alone_.world);
    CheckpointFacts facts;
    facts.spec = plan_.spec;
    facts.progress.step = facts.progress.updates = steps_;
    facts.progress.samples = static_cast<uint64_t>(steps_ * shape_.global);
    facts.progress.best_loss = std::numeric_limits<double>::infinity();
    writer.require_space(facts);
    writer.begin(facts);
    return open_checkpoint(writer.publish(0).value());
  }
  /// Before the first step.
  void load(const CheckpointFolder& folder) {
    load_checkpoint(folder, model_.table, model_.state);
    steps_ = folder.facts.progress.step;
  }
  std::string hash() {
    return hex64(model_.ops.device().is_host() ? parameter_hash(model_.state, model_.table)
                                               : parameter_hash(model_.state, model_.table, model_.ops));
  }

 private:
  BatchShape shape_;
  RankPlan plan_;
  MeasuredModel model_;
  const Alone& alone_;
  const WindowSource& windows_;
  std::optional<MeasuredTraining> training_;
  int64_t steps_ = 0;
};

/// Why these losses are not those of the CPU; empty: they are. worst: the largest difference, relative.
std::string other_losses(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                         double& worst) {
  for (size_t i = 0; i < want.size(); ++i) {
    const double apart = std::abs(got[i] - want[i]) / want[i];
    if (!(apart <= tolerance))
      return fmt::format(
          "the loss of step {} is {:.4f}, on the CPU {:.4f}: a difference of {:.1e}, but at most {:.1e} is "
          "expected",
          i + 1, got[i], want[i], apart, tolerance);
    worst = std::max(worst, apart);
  }
  return "";
}

}  // namespace

Result check_training(const Bench& bench) {
  const Alone alone(bench.rank);
  const std::vector<TokenId> ids = learnable(bench.sizes.spec);
  const WindowSource windows(ids, 1);
  std::vector<double> want;
  double seconds = 0;
  {
    Trained cpu(bench, alone, bench.sizes.spec, DType::f32, *bench.cpu.ops, windows);
    for (int64_t i = 0; i < bench.steps; ++i) {
      const StepTime time = cpu.step();
      want.push_back(time.loss);
      seconds += time.seconds;
      if (i == 1)  // the first one is slower
        bench.say(fmt::format("training     {} steps on the CPU take about {:.1f} s, and less on the GPU", bench.steps,
                              time.seconds * static_cast<double>(bench.steps)));
    }
  }
  Result result{.figures = {{"cpu_seconds_per_step", seconds / static_cast<double>(bench.steps)},
                            {"first_loss", want.front()},
                            {"last_loss", want.back()}}};
  result.text =
      fmt::format("{} steps, losses from {:.4f} to {:.4f} on the CPU", bench.steps, want.front(), want.back());
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Trained gpu(bench, alone, bench.sizes.spec, dtype, *bench.gpu.ops, windows);
    std::vector<double> got;
    for (int64_t i = 0; i < bench.steps; ++i) got.push_back(gpu.step().loss);
    double worst = 0;
    const double tolerance = dtype == DType::f32 ? kTolerance32 : kTolerance16;
    if (const std::string other = other_losses(got, want, tolerance, worst); !other.empty())
      return failed(fmt::format("in {}, {}", name_of(dtype), other));
    result.text += fmt::format(", {} within {:.1e} of {:.1e}", name_of(dtype), worst, tolerance);
    result.figures.push_back({fmt::format("worst_{}", name_of(dtype)), worst});
  }
  return result;
}

Result check_resume(const Bench& bench) {
  const Alone alone(bench.rank);
  Spec spec = bench.sizes.spec;
  spec.layers = std::min<int64_t>(spec.layers, 2);
  if (!spec.attention_layers.empty()) spec.attention_layers.resize(static_cast<size_t>(spec.layers));
  const std::vector<TokenId> ids = learnable(spec);
  const WindowSource windows(ids, 1);
  std::vector<double> want, got;
  {
    Trained cpu(bench, alone, spec, DType::f32, *bench.cpu.ops, windows);
    for (int64_t i = 0; i < 3 * kPart; ++i) want.push_back(cpu.step().loss);
  }
  const PrivateFolder folder("device-check");
  std::optional<CheckpointFolder> saved;
  for (const bool on_gpu : {true, false, true}) {
    const char* const place = on_gpu ? "the GPU" : "the CPU";
    Trained side(bench, alone, spec, DType::f32, on_gpu ? *bench.gpu.ops : *bench.cpu.ops, windows);
    if (saved) {
      side.load(*saved);
      if (const std::string hash = side.hash(); hash != saved->facts.parameter_hash)
        return failed(fmt::format("after step {} a snapshot was loaded on {} with other weights: hash {}, not {}",
                                  got.size(), place, hash, saved->facts.parameter_hash));
    }
    for (int64_t i = 0; i < kPart; ++i) got.push_back(side.step().loss);
    const std::string hash = side.hash();
    try {
      saved = side.save(folder.path());
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      return not_checked(e.what());
    }
    if (hash != saved->facts.parameter_hash)
      return failed(fmt::format("the snapshot of step {} on {} has other weights: hash {}, not {}", got.size(), place,
                                saved->facts.parameter_hash, hash));
  }
  double worst = 0;
  if (const std::string other = other_losses(got, want, kTolerance32, worst); !other.empty())
    return failed("moved from the GPU to the CPU and back, " + other);
  return {.text = fmt::format("{} steps that moved from the GPU to the CPU and back: the weights' bits, losses within "
                              "{:.1e} of {:.1e}",
                              want.size(), worst, kTolerance32),
          .figures = {{"worst", worst}}};
}

}  // namespace trireme::device_check
