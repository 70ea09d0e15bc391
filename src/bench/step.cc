#include "bench/step.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <sstream>
#include <string>

#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/peer_process.h"
#include "base/private_folder.h"
#include "base/rng.h"
#include "bench/training.h"
#include "checkpoint/safetensors/safetensors.h"
#include "comm/agreement.h"
#include "data/token_dataset.h"
#include "model/mesh_layout.h"
#include "model/parameter_table.h"
#include "model/pipeline_order.h"
#include "model/presets.h"
#include "optim/training_state.h"
#include "train/machine.h"
#include "train/peak.h"
#include "train/step_batches.h"

namespace trireme {
namespace {

// What another program needs to repeat our exact steps: the first weights, and every step's tokens.

/// A safetensors file in a temporary folder: the f32 weights of initialize() with this seed by the names of
/// the table, and "tokens" and "targets", I32 [steps, tokens of a step]. The file goes with the object.
class PeerStart {
 public:
  /// batches: of one micro-batch; samples: of a step. Throws Error::io.
  PeerStart(const ParameterTable& table, uint64_t seed, StepBatches& batches, int64_t steps, int64_t samples);
  std::string path() const { return folder_.file("start.safetensors"); }

 private:
  PrivateFolder folder_{"step"};
};

void append(std::vector<int32_t>& all, ConstView ids) {
  const auto values = ids.values<int32_t>();
  all.insert(all.end(), values.begin(), values.end());
}

SafetensorsEntry entry(std::string name, std::string dtype, const Shape& shape) {
  SafetensorsEntry e;
  e.name = std::move(name);
  e.dtype = std::move(dtype);
  for (int dim = 0; dim < shape.dims(); ++dim) e.shape.push_back(shape[dim]);
  return e;
}

PeerStart::PeerStart(const ParameterTable& table, uint64_t seed, StepBatches& batches, int64_t steps, int64_t samples) {
  std::vector<int32_t> tokens, targets;
  for (int64_t step = 0; step < steps; ++step) {
    const Batch& batch = batches.fill(batches.part(static_cast<uint64_t>(step * samples)), 0);
    append(tokens, batch.tokens);
    append(targets, batch.targets);
  }
  std::vector<SafetensorsEntry> entries;
  for (const Parameter& p : table.all()) entries.push_back(entry(p.name, "F32", p.global_shape));
  const Shape ids{steps, static_cast<int64_t>(tokens.size()) / steps};
  entries.push_back(entry("tokens", "I32", ids));
  entries.push_back(entry("targets", "I32", ids));
  TrainingState weights(table, DType::f32, false);
  initialize(weights, table, seed);
  SafetensorsWriter writer(path(), std::move(entries), {});
  size_t next = 0;
  for (const Parameter& p : table.all())
    writer.write(next++, std::as_bytes(view_of(weights.weights(), p).values<float>()));
  writer.write(next++, std::as_bytes(std::span(tokens)));
  writer.write(next++, std::as_bytes(std::span(targets)));
  writer.commit();
}

size_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

StepTimes summary(const std::vector<double>& seconds) {
  return {median(seconds), *std::ranges::min_element(seconds), *std::ranges::max_element(seconds)};
}

std::vector<TokenId> bench_tokens(const StepBenchOptions& options, const Spec& spec) {
  if (!options.tokens.empty()) {
    const TokenDataset file(options.tokens, static_cast<uint64_t>(spec.vocabulary), false);
    std::vector<TokenId> tokens(std::min<uint64_t>(file.size(), 1 << 24));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = file.tokens()[i];
    return tokens;
  }
  std::vector<TokenId> tokens(static_cast<size_t>(options.batch * options.sequence) + 4096);
  RandomStream random(1);
  for (TokenId& id : tokens) id = static_cast<TokenId>(random.below(static_cast<uint64_t>(spec.vocabulary)));
  return tokens;
}

constexpr double kLearningRate = 1e-4;
constexpr uint64_t kSeed = 1;  // of MeasuredModel's weights

/// What a step is measured on.
struct Measured {
  const StepBenchOptions& options;
  const Spec& spec;
  const WindowSource& windows;
  Ops& ops;
  const std::vector<int>& exchange_cores;
};

BatchShape batch_of(const Measured& of, const RankContext& rank, const MeasuredLayout& layout) {
  return {.global = of.options.batch * rank.size(),
          .micro_batches = layout.micro_batches,
          .sequence = of.options.sequence,
          .ranks = static_cast<int>(layout.mesh.data),
          .rank = place_of(layout.mesh, rank.rank()).data};
}

/// The plan of a rank among those of the layout.
RankPlan plan_of(const Measured& of, const RankContext& rank, const MeasuredLayout& layout) {
  Config config = measured_config(of.options.dtype);
  config.model.recompute = of.options.recompute;
  config.optim.shard = of.options.shard;
  config.mesh.sequence = layout.sequence_parallel;
  return plan_rank({.spec = of.spec, .mesh = layout.mesh}, config, step_size(batch_of(of, rank, layout)),
                   planned(rank, of.exchange_cores));
}

/// One rank has the whole model, whatever the size of the groups that it is in.
MeasuredModel whole_model(const Measured& of, const RankContext& rank) {
  const Config config = measured_config(of.options.dtype);
  return {plan_rank({.spec = of.spec, .mesh = {.data = 1}}, config, {}, {.hosts = rank.hosts.first(1)}), of.ops};
}

/// Steps on windows of the tokens; logged by the first rank.
class TrainingStep {
 public:
  TrainingStep(const Measured& of, MeasuredModel& model, const RankContext& rank, const MeasuredLayout& layout)
      : training_(model, rank, plan_of(of, rank, layout), of.options.batch * rank.size(), kLearningRate,
                  std::make_unique<SampleBatches>(of.windows, batch_of(of, rank, layout))),
        logs_(rank.rank() == 0) {}

  StepTime run() {
    const StepTime time = training_.run();
    loss_ = time.loss;
    if (logs_) log::info("step {:>3}  loss {:.4f}  {:.3f} s", ++steps_, loss_, time.seconds);
    return time;
  }
  double loss() const { return loss_; }

 private:
  MeasuredTraining training_;
  bool logs_;
  int64_t steps_ = 0;
  double loss_ = 0;
};

/// Our steps on one rank, each followed by a pass over its GEMMs.
class StepsBesideCeiling {
 public:
  /// on_host: the ceiling is that of the CPU's GEMMs; a GPU's is not measured.
  StepsBesideCeiling(const StepBenchOptions& o, const Spec& spec, int threads, bool on_host) {
    if (on_host) ceiling_.emplace(spec, o.dtype, o.batch * o.sequence, threads);
  }

  double run(TrainingStep& ours) {
    seconds_.push_back(ours.run().seconds);
    loss_ = ours.loss();
    if (peak_rss_ == 0) peak_rss_ = peak_rss();  // the GEMMs have their own memory
    if (ceiling_) ceiling_->pass();
    return seconds_.back();
  }

  bool any() const { return !seconds_.empty(); }
  /// tokens: of a step. result.model_flops is known.
  void tell(double tokens, StepBenchResult& result) const {
    result.loss = loss_;
    result.peak_rss = peak_rss_;
    result.times = summary(seconds_);
    result.tokens_per_second = tokens / result.times.median;
    if (!ceiling_) return;
    result.ceiling = ceiling_->ceiling();
    std::vector<double> rates;
    for (const double seconds : seconds_) rates.push_back(result.model_flops / seconds);
    result.share = ceiling_->share(rates);
  }

 private:
  std::optional<CeilingMeter> ceiling_;
  std::vector<double> seconds_;
  double loss_ = 0;
  size_t peak_rss_ = 0;
};

/// Memory of PyTorch: weights, gradients and moments, three copies of the logits, and about 20 rows of a layer's width
/// that it keeps per token and layer. Eager GPT-2 124M at 4 x 1024 used 7.8 GB, this estimates 7.5.
uint64_t pytorch_bytes(const StepBenchOptions& options, const Spec& spec) {
  const auto rows = static_cast<uint64_t>(options.batch * options.sequence);
  return 16 * static_cast<uint64_t>(ParameterTable(spec).flat_count()) +
         rows *
             (12 * static_cast<uint64_t>(spec.vocabulary_rows) + 80 * static_cast<uint64_t>(spec.layers * spec.width));
}

/// Both sides begin with the same weights and take the same steps, those of the warm-up included: PyTorch compiles in
/// the first one, and its memory is as it stays after the second.
constexpr int64_t kPeerWarmup = 2;

/// In which both programs are measured where they do not alternate step by step: half of the steps of one, then of the
/// other, twice.
constexpr int64_t kRounds = 2;

/// Why PyTorch cannot be measured here; empty where it can.
std::string pytorch_obstacle(const StepBenchOptions& options, const Spec& spec, bool has_bf16) {
  const uint64_t needed = pytorch_bytes(options, spec), available = available_memory(1);
  if (options.dtype == DType::bf16 && !has_bf16)
    return "this CPU has no bf16 instructions, so a step takes many minutes";
  if (needed > available)
    return fmt::format("it needs about {:.1f} GB, but {:.1f} GB are free", static_cast<double>(needed) / 1e9,
                       static_cast<double>(available) / 1e9);
  return "";
}

/// PyTorch's steps from the start; the steps of its warm-up are done.
PeerProcess start_pytorch(const StepBenchOptions& options, const std::string& mode, int threads,
                          const std::string& start) {
  log::info("starting PyTorch, {}{}", mode, mode == "compiled" ? ": compiling takes one or two minutes" : "");
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
                                   std::to_string(threads),
                                   "--warmup",
                                   std::to_string(kPeerWarmup),
                                   "--learning-rate",
                                   fmt::format("{}", kLearningRate),
                                   "--weight-decay",
                                   "0",
                                   "--start",
                                   start};
  if (mode == "compiled") command.push_back("--compile");
  return PeerProcess(command);
}

/// What both programs' steps gave.
class BothSides {
 public:
  BothSides(std::string mode, bool apart, StepsBesideCeiling& steps) : steps_(steps) {
    peer_.mode = std::move(mode);
    peer_.apart = apart;
  }

  void run(PeerProcess& process) {
    const PeerProcess::Result result = process.measure();
    theirs_.push_back(result.seconds);
    peer_.peak_rss = result.peak_rss;
    peer_.loss = result.loss;
    log::info("PyTorch   loss {:.4f}  {:.3f} s", result.loss, result.seconds);
  }
  void run(TrainingStep& ours) {
    own_.push_back(steps_.run(ours));
    peer_.our_loss = ours.loss();
  }
  PeerStep result() const {
    PeerStep peer = peer_;
    peer.times = summary(theirs_);
    peer.our_seconds = median(own_);
    return peer;
  }

 private:
  StepsBesideCeiling& steps_;
  PeerStep peer_;
  std::vector<double> theirs_, own_;
};

/// The best of a figure over the peers that were measured.
template <class Figure>
double least(const std::vector<PeerStep>& peers, Figure figure) {
  double best = 0;
  for (const PeerStep& peer : peers) {
    if (peer.skipped.empty() && (best == 0 || figure(peer) < best)) best = figure(peer);
  }
  return best;
}

/// The smallest number of micro-batches that gives each at most --micro sequences; without it one, and in a pipeline
/// four per stage, where there are so many sequences.
int64_t micro_batches_of(const StepBenchOptions& o, const MeshShape& mesh, int ranks) {
  const int64_t sequences = o.batch * ranks / mesh.data;
  if (o.micro > 0) return (sequences + o.micro - 1) / o.micro;
  if (mesh.pipeline == 1) return 1;
  const int64_t count = std::min(sequences, 4 * mesh.pipeline);
  return mesh.chunks > 1 && count > mesh.pipeline ? count - count % mesh.pipeline : count;
}

/// "2x1x1", "1x2x2c2s". Throws Error::usage.
MeasuredLayout parse_layout(const std::string& word) {
  MeasuredLayout layout;
  const char *at = word.data(), *const end = at + word.size();
  bool good = true;
  const auto read = [&](int64_t& axis) {
    const auto [next, error] = std::from_chars(at, end, axis);
    good = good && error == std::errc();
    at = next;
  };
  const auto found = [&](char letter) {
    if (at == end || *at != letter) return false;
    ++at;
    return true;
  };
  for (int64_t* axis : {&layout.mesh.data, &layout.mesh.tensor, &layout.mesh.pipeline}) {
    good = good && (axis == &layout.mesh.data || found('x'));
    read(*axis);
  }
  if (found('c')) read(layout.mesh.chunks);
  layout.sequence_parallel = found('s');
  require(good && at == end, ErrorKind::usage,
          "--layouts: \"{}\" is not a layout; expected data x tensor x pipeline, like 2x1x1, then optionally c and the "
          "chunks per stage, and s for sequence parallelism: 1x2x2c2s",
          word);
  require(!layout.sequence_parallel || layout.mesh.tensor > 1, ErrorKind::usage,
          "--layouts: {}: s (sequence parallelism) needs at least 2 tensor ranks", word);
  return layout;
}

/// Every layout without chunks and sequence parallelism that the model and the ranks can have.
std::vector<MeasuredLayout> all_layouts(const StepBenchOptions& o, const Spec& spec, int ranks) {
  std::vector<MeasuredLayout> layouts;
  for (int64_t pipeline = 1; pipeline <= std::min<int64_t>(ranks, spec.layers); ++pipeline)
    for (int64_t tensor = 1; tensor <= ranks; ++tensor) {
      if (ranks % (tensor * pipeline) != 0 || spec.kv_heads() % tensor != 0) continue;
      if (pipeline > 1 && exchanges_every_micro_batch(o.shard, ranks)) continue;
      layouts.push_back({.mesh = {ranks / (tensor * pipeline), tensor, pipeline}});
    }
  return layouts;
}

/// Throws Error::usage, and Error::config for a layout that the model cannot have.
std::vector<MeasuredLayout> layouts_of(const StepBenchOptions& o, const Spec& spec, int ranks) {
  std::vector<MeasuredLayout> layouts;
  if (o.layouts == "all") {
    layouts = all_layouts(o, spec, ranks);
  } else {
    std::istringstream words(o.layouts);
    for (std::string word; std::getline(words, word, ',');) {
      layouts.push_back(parse_layout(word));
      MeshShape& mesh = layouts.back().mesh;
      const bool divides = mesh.data > 0 && mesh.tensor > 0 && mesh.pipeline > 0 && ranks % mesh.data == 0 &&
                           ranks / mesh.data % mesh.tensor == 0;
      require(divides && ranks / mesh.data / mesh.tensor == mesh.pipeline, ErrorKind::usage,
              "--layouts: {}: data x tensor x pipeline is not the number of ranks, {}; correct it, or start another "
              "number with mpirun -n N",
              word, ranks);
      mesh = resolve_mesh(mesh, ranks, "mpirun");
    }
  }
  for (MeasuredLayout& layout : layouts) {
    const MeshShape& mesh = layout.mesh;
    (void)layouts_of_replica(spec, mesh);
    require(mesh.pipeline == 1 || !exchanges_every_micro_batch(o.shard, ranks), ErrorKind::usage,
            "--shard gradients and parameters do not support a pipeline; use other layouts, or --shard optimizer");
    layout.micro_batches = micro_batches_of(o, mesh, ranks);
    (void)pipeline_order(0, mesh.pipeline, mesh.chunks, layout.micro_batches);
    layout.use = pipeline_use(spec, mesh, layout.micro_batches);
  }
  return layouts;
}

/// Our model from the start, its warm-up done.
class OurSteps {
 public:
  OurSteps(const Measured& of, const RankContext& rank)
      : model_(whole_model(of, rank)), step_(of, model_, rank, {.mesh = {.data = 1}}) {}

  TrainingStep& warm() {
    for (int64_t i = 0; i < kPeerWarmup; ++i) step_.run();
    return step_;
  }

 private:
  MeasuredModel model_;
  TrainingStep step_;
};

/// Whether the memory is too small for both programs at once.
bool too_large_together(const Measured& of, const RankContext& rank) {
  const MemoryPlan memory = memory_of(plan_of(of, rank, {.mesh = {.data = 1}}), of.ops);
  return pytorch_bytes(of.options, of.spec) + memory.total() > available_memory(1);
}

PeerStep measure_pytorch(const Measured& of, const RankContext& rank, const std::string& mode, const std::string& start,
                         StepsBesideCeiling& steps) {
  const bool apart = of.options.apart || too_large_together(of, rank);
  BothSides both(mode, apart, steps);
  if (!apart) {
    PeerProcess process = start_pytorch(of.options, mode, rank.threads, start);
    OurSteps ours(of, rank);
    TrainingStep& step = ours.warm();
    for (int64_t i = 0; i < of.options.steps; ++i) {
      both.run(process);
      both.run(step);
    }
    return both.result();
  }
  const int64_t rounds = std::min(kRounds, of.options.steps);
  for (int64_t round = 0; round < rounds; ++round) {
    const int64_t count = of.options.steps * (round + 1) / rounds - of.options.steps * round / rounds;
    {
      OurSteps ours(of, rank);
      TrainingStep& step = ours.warm();
      for (int64_t i = 0; i < count; ++i) both.run(step);
    }
    PeerProcess process = start_pytorch(of.options, mode, rank.threads, start);
    for (int64_t i = 0; i < count; ++i) both.run(process);
  }
  return both.result();
}

/// Each way of PyTorch, both sides again from the start.
void measure_peers(const Measured& of, bool has_bf16, const RankContext& rank, StepBenchResult& result,
                   StepsBesideCeiling& steps) {
  const StepBenchOptions& options = of.options;
  std::unique_ptr<PeerStart> start;
  for (const char* mode : {"eager", "compiled"}) {
    if (std::string obstacle = pytorch_obstacle(options, of.spec, has_bf16); !obstacle.empty()) {
      PeerStep& peer = result.peers.emplace_back();
      peer.mode = mode;
      peer.skipped = std::move(obstacle);
      continue;
    }
    if (!start) {
      SampleBatches batches(of.windows, {.global = options.batch, .micro_batches = 1, .sequence = options.sequence});
      start = std::make_unique<PeerStart>(ParameterTable(of.spec), kSeed, batches, kPeerWarmup + options.steps,
                                          options.batch);
    }
    result.peers.push_back(measure_pytorch(of, rank, mode, start->path(), steps));
  }
}

/// One step of each layout in turn, all of the same global batch and from the same weights.
void measure_layouts(const Measured& of, const RankContext& rank, StepBenchResult& result) {
  result.layouts = layouts_of(of.options, of.spec, rank.size());
  std::vector<std::unique_ptr<MeasuredModel>> models;
  for (const MeasuredLayout& layout : result.layouts)
    models.push_back(std::make_unique<MeasuredModel>(plan_of(of, rank, layout), of.ops));
  const std::vector<RankGroup> groups(result.layouts.size(), {rank.size(), 1});
  result.ranks =
      measure_in_turn(rank, groups, of.options.steps, [&](size_t i, const RankContext& group) -> MeasuredStep {
        const MeasuredLayout& layout = result.layouts[i];
        return [step = std::make_shared<TrainingStep>(of, *models[i], group, layout)] { return step->run(); };
      });
}

}  // namespace

std::string MeasuredLayout::name() const {
  return fmt::format("{}x{}x{}{}{}", mesh.data, mesh.tensor, mesh.pipeline,
                     mesh.chunks > 1 ? fmt::format("c{}", mesh.chunks) : "", sequence_parallel ? "s" : "");
}

std::string PeerStep::loss_text() const {
  constexpr double kSame = 5e-3;  // of the loss: bf16 of two programs differs by less after a few steps
  return fmt::format("loss {:.4f} after the last step, ours {:.4f}: {}", loss, our_loss,
                     std::abs(loss - our_loss) <= kSame * std::abs(our_loss)
                         ? "the same weights, tokens and rates"
                         : "different, although both started from the same weights: one of the two is wrong");
}

double StepBenchResult::peer_ratio() const {
  return least(peers, [](const PeerStep& peer) { return peer.ratio(); });
}

double StepBenchResult::peer_rss_ratio() const {
  const double rss = least(peers, [](const PeerStep& peer) { return static_cast<double>(peer.peak_rss); });
  return rss > 0 ? static_cast<double>(peak_rss) / rss : 0;
}

StepBenchResult bench_step(const StepBenchOptions& options, Backend& backend, const RankContext& rank,
                           const std::vector<int>& exchange_cores) {
  Spec spec;
  Scalars scalars(rank.world);
  together(scalars, [&] {
    spec = preset(options.preset).spec;
    if (const auto b = options.bias)
      spec.biases = {.qkv = *b, .attention_out = *b, .mlp_in = *b, .mlp_out = *b, .norm = *b};
    require(options.sequence <= spec.context, ErrorKind::usage, "--seq {} is longer than the {} positions of {}",
            options.sequence, spec.context, options.preset);
    require(!options.pytorch || rank.size() == 1, ErrorKind::usage, "--peer is supported only on one rank, not on {}",
            rank.size());
    require(!options.pytorch || backend.ops->device().is_host(), ErrorKind::usage,
            "--peer measures PyTorch on the CPU, but this is a GPU ({}); add `--device cpu`", backend.hardware);
    require(options.layouts.empty() || rank.size() > 1, ErrorKind::usage,
            "--layouts compares layouts of several ranks, but this is one rank; start it with mpirun -n N");
    if (!options.layouts.empty()) (void)layouts_of(options, spec, rank.size());
  });
  const double tokens = static_cast<double>(options.batch * options.sequence);
  StepBenchResult result;
  result.model_flops = train_flops_per_token(spec, options.sequence) * tokens;
  PeakRate peak(options.peak_flops, *backend.ops, rank.threads, rank.local_size(), options.dtype, scalars);
  result.peak_is_measured = peak.is_measured();
  // Once the fastest step's FLOP/s of a rank are known: a measured peak is not below them.
  const auto tell_peak = [&](double most) {
    (void)peak.share(most * rank.size());
    result.peak_flops = peak.total() / rank.size();
    result.taken = peak.used_by_others();
  };
  const std::vector<TokenId> ids = bench_tokens(options, spec);
  const WindowSource windows(ids, 1);
  const Measured of{options, spec, windows, *backend.ops, exchange_cores};
  if (rank.size() > 1) {
    if (options.layouts.empty()) {
      MeasuredModel model = whole_model(of, rank);
      result.ranks = measure_in_turn(
          rank, growing_groups(rank.size()), options.steps, [&](size_t, const RankContext& group) -> MeasuredStep {
            const MeasuredLayout layout{.mesh = {.data = group.size()}};
            return [step = std::make_shared<TrainingStep>(of, model, group, layout)] { return step->run(); };
          });
    } else {
      measure_layouts(of, rank, result);
    }
    double most = 0;
    for (const RanksTime& time : result.ranks)  // fewer ranks may have more processors each
      if (time.ranks == rank.size()) most = std::max(most, result.model_flops / time.seconds);
    tell_peak(most);
    return result;
  }
  StepsBesideCeiling steps(options, spec, rank.threads, backend.ops->device().is_host());
  if (options.pytorch) measure_peers(of, backend.has_bf16, rank, result, steps);
  if (!steps.any()) {
    MeasuredModel model = whole_model(of, rank);
    TrainingStep ours(of, model, rank, {.mesh = {.data = 1}});
    for (int64_t i = 0; i < options.warmup; ++i) ours.run();
    for (int64_t i = 0; i < options.steps; ++i) steps.run(ours);
  }
  steps.tell(tokens, result);
  tell_peak(result.model_flops / result.times.fastest);
  return result;
}

}  // namespace trireme
