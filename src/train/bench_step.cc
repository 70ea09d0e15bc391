#include "train/bench_step.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/log.h"
#include "base/median.h"
#include "base/peer_process.h"
#include "base/rng.h"
#include "base/time.h"
#include "data/token_dataset.h"
#include "model/presets.h"
#include "train/machine.h"
#include "train/step.h"
#include "train/step_ceiling.h"

namespace trireme {
namespace {

size_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

StepTimes summary(const std::vector<double>& seconds) {
  return {median(seconds), *std::ranges::min_element(seconds), *std::ranges::max_element(seconds)};
}

std::vector<uint16_t> bench_tokens(const StepBenchOptions& options, const Spec& spec) {
  if (!options.tokens.empty()) {
    const TokenDataset file(options.tokens, static_cast<uint64_t>(spec.vocabulary), false);
    const auto all = file.tokens();
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(all.size(), 1 << 24))};
  }
  std::vector<uint16_t> tokens(static_cast<size_t>(options.batch * options.sequence) + 4096);
  RandomStream random(1);
  for (uint16_t& id : tokens) id = static_cast<uint16_t>(random.below(static_cast<uint64_t>(spec.vocabulary)));
  return tokens;
}

/// A model in training, by the step that training runs; every call of step() is one.
class TrainingStep {
 public:
  TrainingStep(const StepBenchOptions& options, const Spec& spec, Ops& ops)
      : options_(options),
        world_(make_single()),
        rank_{.world = *world_, .host = {}, .log_name = {}, .threads = options.threads},
        table_(spec),
        state_(table_, options.dtype, true),
        session_(
            {.spec = spec,
             .dtype = options.dtype,
             .shape = {.rows = options.batch * options.sequence, .accumulates = false, .recompute = options.recompute},
             .mesh = {.data = 1},
             .optimizer = OptimizerOptions{}},
            table_, state_, ops, rank_),
        tokens_(bench_tokens(options, spec)),
        windows_(tokens_, 1),
        batches_(windows_, {.global = options.batch, .sequence = options.sequence, .ranks = 1}),
        step_(session_, batches_, 1) {
    initialize(state_, table_, 1);
  }

  /// Seconds of the step.
  double step() {
    const auto start = Clock::now();
    loss_ = step_
                .run({.step = steps_,
                      .consumed = static_cast<uint64_t>(steps_ * options_.batch),
                      .update = steps_ + 1,
                      .learning_rate = 1e-4,
                      .most_loss = std::numeric_limits<double>::infinity()})
                .loss;
    ++steps_;
    const double seconds = seconds_since(start);
    log::info("step {:>3}  loss {:.4f}  {:.3f} s", steps_, loss_, seconds);
    return seconds;
  }
  double loss() const { return loss_; }

 private:
  const StepBenchOptions& options_;
  std::unique_ptr<Communicator> world_;
  RankContext rank_;
  ParameterTable table_;
  TrainingState state_;
  Session session_;
  std::vector<uint16_t> tokens_;
  WindowSource windows_;
  SampleBatches batches_;
  TrainStep step_;
  int64_t steps_ = 0;
  double loss_ = 0;
};

/// What PyTorch takes: weights, gradients and moments, three copies of the logits, and about 20 rows of a layer's width
/// that it keeps per token and layer. Eager GPT-2 124M at 4 x 1024 was seen to take 7.8 GB, this says 7.5.
uint64_t pytorch_bytes(const StepBenchOptions& options, const Spec& spec) {
  const auto rows = static_cast<uint64_t>(options.batch * options.sequence);
  return 16 * static_cast<uint64_t>(ParameterTable(spec).flat_count()) +
         rows *
             (12 * static_cast<uint64_t>(spec.vocabulary_rows) + 80 * static_cast<uint64_t>(spec.layers * spec.width));
}

PeerStep measure_pytorch(const StepBenchOptions& options, const Spec& spec, const std::string& mode,
                         bool multiplies_bf16, TrainingStep& ours, std::vector<double>& our_seconds) {
  PeerStep peer;
  peer.mode = mode;
  const uint64_t needed = pytorch_bytes(options, spec), available = available_memory(1);
  if (options.dtype == DType::bf16 && !multiplies_bf16) {
    peer.skipped = "this CPU has no bf16 instructions: its step takes many minutes";
  } else if (needed > available) {
    peer.skipped = fmt::format("it needs about {:.1f} GB beside ours, {:.1f} GB are free",
                               static_cast<double>(needed) / 1e9, static_cast<double>(available) / 1e9);
  }
  if (!peer.skipped.empty()) return peer;
  log::info("starting PyTorch, {}{}", mode, mode == "compiled" ? ": compiling takes a minute or two" : "");
  std::vector<std::string> command{options.python,
                                   options.peer_script,
                                   "--serve",
                                   "--preset",
                                   options.preset,
                                   "--batch",
                                   std::to_string(options.batch),
                                   "--seq",
                                   std::to_string(options.sequence),
                                   "--dtype",
                                   std::string(name_of(options.dtype)),
                                   "--threads",
                                   std::to_string(options.threads)};
  if (mode == "compiled") command.push_back("--compile");
  PeerProcess process(command);
  std::vector<double> theirs, own;
  for (int64_t i = 0; i < options.steps; ++i) {
    const PeerProcess::Result result = process.measure();
    theirs.push_back(result.seconds);
    peer.peak_rss = result.peak_rss;
    peer.loss = result.loss;
    log::info("PyTorch   loss {:.4f}  {:.3f} s", result.loss, result.seconds);
    own.push_back(ours.step());
  }
  peer.times = summary(theirs);
  peer.our_seconds = median(own);
  our_seconds.insert(our_seconds.end(), own.begin(), own.end());
  return peer;
}

/// The best of a figure over the peers that were measured.
template <class Figure>
double least(const std::vector<PeerStep>& peers, Figure figure) {
  double best = 0;
  for (const PeerStep& peer : peers) {
    if (peer.skipped.empty() && (best == 0 || figure(peer) < best)) best = figure(peer);
  }
  return best;
}

}  // namespace

double StepBenchResult::peer_ratio() const {
  return least(peers, [](const PeerStep& peer) { return peer.ratio(); });
}

double StepBenchResult::peer_rss_ratio() const {
  const double rss = least(peers, [](const PeerStep& peer) { return static_cast<double>(peer.peak_rss); });
  return rss > 0 ? static_cast<double>(peak_rss) / rss : 0;
}

StepBenchResult bench_step(const StepBenchOptions& options, Backend& backend) {
  const Spec spec = preset(options.preset).spec;
  require(options.sequence <= spec.context, ErrorKind::usage, "--seq {} is longer than the {} positions of {}",
          options.sequence, spec.context, options.preset);
  StepBenchResult result;
  std::vector<double> seconds;
  {
    TrainingStep ours(options, spec, *backend.ops);
    for (int64_t i = 0; i < options.warmup; ++i) ours.step();
    if (options.pytorch) {
      for (const char* mode : {"eager", "compiled"})
        result.peers.push_back(measure_pytorch(options, spec, mode, backend.multiplies_bf16, ours, seconds));
    }
    while (seconds.size() < static_cast<size_t>(options.steps)) seconds.push_back(ours.step());
    result.loss = ours.loss();
    result.peak_rss = peak_rss();
  }
  result.times = summary(seconds);
  const double tokens = static_cast<double>(options.batch * options.sequence);
  result.tokens_per_second = tokens / result.times.median;
  result.model_flops = train_flops_per_token(spec, options.sequence) * tokens;
  result.ceiling_flops_per_second =
      step_ceiling(spec, options.dtype, options.batch * options.sequence, options.threads);
  result.share = result.model_flops / result.times.median / result.ceiling_flops_per_second;
  return result;
}

}  // namespace trireme
