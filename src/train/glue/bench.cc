#include "train/glue/bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/median.h"
#include "base/peer_process.h"
#include "base/time.h"
#include "comm/agreement.h"
#include "model/stage.h"
#include "optim/optimizer.h"
#include "train/glue/data.h"
#include "train/step_ceiling.h"

namespace trireme {
namespace {

GlueOptions glue_options(const GlueBenchOptions& o) {
  GlueOptions options;
  options.model = o.model;
  options.data_dir = o.data_dir;
  options.task = glue_task(o.task).name;
  options.train = true;
  return options;
}

/// A model in training on the rows in the file's order; each step takes the next batches.
class TuningStep {
 public:
  TuningStep(const GlueBenchOptions& options, const PretrainedModel& model, const EncodedRows& rows, Ops& ops,
             int threads)
      : options_(options),
        rows_(rows),
        packer_(
            {.length = options.pad ? options.max_length : 0, .padding = model.padding, .classes = model.spec.classes}),
        table_(model.spec),
        state_(table_, DType::f32, true),
        ops_(ops),
        stage_(model.spec, {&table_, state_.weights(), state_.gradients()}, DType::f32,
               {.rows = options.batch * (options.pad ? options.max_length : rows.longest), .accumulates = false}, ops_,
               threads) {
    initialize(state_, table_, 1);
  }

  std::unique_ptr<Optimizer> optimizer(Communicator& group, const OptimizerOptions& options) {
    return std::make_unique<Optimizer>(table_, state_, ops_, group, options);
  }

  /// Model FLOPs of the last step, of its tokens without padding.
  double flops() const { return flops_; }

  /// Back to the first batch.
  void restart() { first_ = 0; }

  /// One of `ranks` ranks' part of a step; seconds.
  double step(Optimizer& optimizer, int rank, int ranks) {
    const auto batch = static_cast<size_t>(options_.batch), all = batch * static_cast<size_t>(ranks);
    if (first_ + all > static_cast<size_t>(rows_.rows())) first_ = 0;
    const size_t own = first_ + batch * static_cast<size_t>(rank);
    std::vector<uint32_t> which(batch);
    std::iota(which.begin(), which.end(), static_cast<uint32_t>(own));
    const auto start = Clock::now();
    const Batch& rows = packer_.pack(rows_, which, own);
    optimizer.begin_exchange();
    const Stage::Step numbers{.seed = 1, .step = static_cast<uint64_t>(updates_), .dropout = true};
    stage_.loss_and_backward(rows, numbers, 1.0f / static_cast<float>(all), Write::overwrite, &optimizer);
    const double norm = std::sqrt(optimizer.finish_exchange(stage_.context()));
    optimizer.update(stage_.context(), 2e-5, ++updates_, norm);
    first_ += all;
    const double seconds = seconds_since(start);
    flops_ = 0;
    for (const uint32_t row : which) {
      const auto length = static_cast<int64_t>(rows_.offsets[row + 1] - rows_.offsets[row]);
      flops_ += train_flops_per_token(stage_.spec(), length) * static_cast<double>(length);
    }
    return seconds;
  }

 private:
  const GlueBenchOptions& options_;
  const EncodedRows& rows_;
  RowPacker packer_;
  ParameterTable table_;
  TrainingState state_;
  Ops& ops_;
  Stage stage_;
  size_t first_ = 0;
  int64_t updates_ = 0;
  double flops_ = 0;
};

/// The first ranks of the job as a job of their own, over the same model.
struct RankGroup {
  int ranks;
  std::unique_ptr<Communicator> decisions, exchange;  ///< one issuing thread each
  std::unique_ptr<Optimizer> optimizer;
  std::vector<double> seconds, waiting;  ///< of the slowest rank; of rank 0
};

RankGroup make_group(TuningStep& ours, Process& process, const CorePlan& cores, int ranks) {
  const int color = process.rank() < ranks ? 0 : 1;
  RankGroup group{
      ranks, process.world().split(color, process.rank()), process.world().split(color, process.rank()), nullptr, {},
      {}};
  OptimizerOptions options;
  options.one_host = process.local_size() == process.size();
  options.progress_cpus = cores.progress_cpus;
  if (color == 0) group.optimizer = ours.optimizer(*group.exchange, options);
  return group;
}

/// Seconds of a step on rank 0, the others' included.
void run_group(RankGroup& group, TuningStep& ours, Process& process) {
  if (process.rank() < group.ranks) {
    Scalars scalars(*group.decisions);
    scalars.barrier();
    const double own = ours.step(*group.optimizer, process.rank(), group.ranks);
    group.waiting.push_back(group.optimizer->last_exchange().exposed_seconds);
    group.seconds.push_back(scalars.max(own));
  }
  Scalars(process.world()).barrier();
}

/// 1, 2, 4, ... and all ranks: a step of each in turn, after one of each to warm up.
std::vector<GlueRanks> measure_ranks(const GlueBenchOptions& o, TuningStep& ours, Process& process,
                                     const CorePlan& cores) {
  std::vector<RankGroup> groups;
  for (int ranks = 1; ranks < process.size(); ranks *= 2) groups.push_back(make_group(ours, process, cores, ranks));
  groups.push_back(make_group(ours, process, cores, process.size()));
  for (int64_t round = 0; round <= o.steps; ++round) {
    for (RankGroup& group : groups) {
      run_group(group, ours, process);
      if (round > 0) continue;
      group.seconds.clear();
      group.waiting.clear();
    }
  }
  std::vector<GlueRanks> out;
  if (process.rank() != 0) return out;
  for (const RankGroup& group : groups) {
    std::vector<double> speed_ups;
    for (size_t i = 0; i < group.seconds.size(); ++i)
      speed_ups.push_back(group.ranks * groups[0].seconds[i] / group.seconds[i]);
    const double seconds = median(group.seconds);
    out.push_back({group.ranks, seconds, static_cast<double>(o.batch * group.ranks) / seconds, median(speed_ups),
                   median(group.waiting) / seconds});
  }
  return out;
}

/// Of steps on one rank.
struct OwnSteps {
  std::vector<double> seconds, flops_per_second;
  double run(TuningStep& ours, Optimizer& optimizer) {
    seconds.push_back(ours.step(optimizer, 0, 1));
    flops_per_second.push_back(ours.flops() / seconds.back());
    return seconds.back();
  }
};

/// Both start with the first batch; one warm-up step each, then in turn.
GluePeer measure_peer(const GlueBenchOptions& o, const std::string& padding, int threads, TuningStep& ours,
                      Optimizer& optimizer, OwnSteps& own) {
  log::info("starting PyTorch, {} padding", padding);
  PeerProcess process({o.python, o.peer_script, "--model", o.model, "--data-dir", o.data_dir, "--batch",
                       std::to_string(o.batch), "--max-length", std::to_string(o.max_length), "--padding", padding,
                       "--threads", std::to_string(threads)});
  ours.restart();
  ours.step(optimizer, 0, 1);
  std::vector<double> ratios, theirs;
  for (int64_t i = 0; i < o.steps; ++i) {
    theirs.push_back(process.measure().seconds);
    const double seconds = own.run(ours, optimizer);
    ratios.push_back(theirs.back() / seconds);
    log::info("PyTorch {:.3f} s, ours {:.3f} s", theirs.back(), seconds);
  }
  return {padding, static_cast<double>(o.batch) / median(theirs), median(ratios)};
}

void measure_alone(const GlueBenchOptions& o, TuningStep& ours, const CorePlan& cores, GlueBenchResult& result) {
  const auto single = make_single();
  const auto optimizer = ours.optimizer(*single, {});
  OwnSteps own;
  if (o.pytorch) {
    for (const char* padding : {"dynamic", "full"})
      result.peers.push_back(measure_peer(o, padding, cores.threads, ours, *optimizer, own));
  } else {
    ours.step(*optimizer, 0, 1);
    while (static_cast<int64_t>(own.seconds.size()) < o.steps) own.run(ours, *optimizer);
  }
  result.median = median(own.seconds);
  result.fastest = *std::ranges::min_element(own.seconds);
  result.slowest = *std::ranges::max_element(own.seconds);
  result.rows_per_second = static_cast<double>(o.batch) / result.median;
  result.model_flops_per_second = median(own.flops_per_second);
}

}  // namespace

GlueBenchResult bench_glue(const GlueBenchOptions& o, Ops& ops, Process& process, const CorePlan& cores) {
  Scalars scalars(process.world());
  PretrainedModel model;
  EncodedRows rows;
  together(scalars, [&] {
    const GlueOptions options = glue_options(o);
    const GlueData data = read_data(options);
    require(!o.pytorch || (data.task.name == "mrpc" && process.size() == 1), ErrorKind::usage,
            "--peer is measured on one rank, on --task mrpc");
    model = open_pretrained(options, data.task);
    require(o.max_length <= model.spec.context, ErrorKind::usage,
            "--max-seq-length {} is more than the {} positions of {}", o.max_length, model.spec.context, o.model);
    rows = encode_sets(data.train, data.task, model, o.max_length).at(0).rows;
    require(rows.rows() >= o.batch * process.size(), ErrorKind::usage,
            "--batch {} on {} ranks is more than the {} rows of {}", o.batch, process.size(), rows.rows(),
            data.train[0].path);
  });
  TuningStep ours(o, model, rows, ops, cores.threads);
  GlueBenchResult result;
  result.tokens_per_row = static_cast<double>(rows.tokens.size()) / static_cast<double>(rows.rows());
  if (process.size() == 1) {
    measure_alone(o, ours, cores, result);
    const auto tokens = static_cast<int64_t>(result.tokens_per_row * static_cast<double>(o.batch));
    result.ceiling_flops_per_second = step_ceiling(model.spec, DType::f32, tokens, cores.threads);
  } else {
    result.ranks = measure_ranks(o, ours, process, cores);
  }
  return result;
}

}  // namespace trireme
