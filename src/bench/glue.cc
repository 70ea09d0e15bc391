#include "bench/glue.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <numeric>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/numbers.h"
#include "base/peer_process.h"
#include "base/time.h"
#include "bench/training.h"
#include "comm/agreement.h"
#include "train/glue/data.h"
#include "train/start/ranks.h"

namespace trireme {
namespace {

GlueOptions glue_options(const GlueBenchOptions& o) {
  GlueOptions options;
  Config& config = options.loaded.config = glue_configuration();
  config.model.init = o.model;
  config.data.dir = o.data_dir;
  config.evaluation.only = false;
  options.rows.task = glue_task(o.task).name;
  return options;
}

/// The rows in the file's order, `batch` of them to each rank in a step; once too few are left, from the beginning.
class FileOrder final : public StepBatches {
 public:
  FileOrder(const EncodedRows& rows, const RowLayout& layout, int64_t batch, const RankContext& rank)
      : rows_(rows), layout_(layout), which_(static_cast<size_t>(batch)), rank_(rank.rank()), ranks_(rank.size()) {}

  StepPart part(uint64_t consumed) override {
    const std::vector<uint32_t> which = rows_of(consumed);
    return {.consumed = consumed,
            .samples = static_cast<int64_t>(all()),
            .slices = {{which[0], std::ssize(which)}},
            .rows = {batch_rows(rows_, which, layout_)},
            .counted = static_cast<double>(all())};
  }
  const Batch& fill(const StepPart& step, int64_t, size_t slot) override {
    which_ = rows_of(step.consumed);
    return builder_of(packers_, slot, layout_).pack(rows_, which_, which_[0]);
  }
  /// Rows of the last batch.
  const std::vector<uint32_t>& last() const { return which_; }

 private:
  std::vector<uint32_t> rows_of(uint64_t consumed) const {
    const size_t steps = static_cast<size_t>(rows_.rows()) / all();
    const size_t own = consumed / all() % steps * all() + which_.size() * static_cast<size_t>(rank_);
    std::vector<uint32_t> rows(which_.size());
    std::iota(rows.begin(), rows.end(), static_cast<uint32_t>(own));
    return rows;
  }
  size_t all() const { return which_.size() * static_cast<size_t>(ranks_); }

  const EncodedRows& rows_;
  RowLayout layout_;
  std::deque<RowPacker> packers_;
  std::vector<uint32_t> which_;
  int rank_, ranks_;
};

/// Fine-tuning that is measured.
struct Tuning {
  const GlueBenchOptions& options;
  const PretrainedModel& pretrained;
  const EncodedRows& rows;
  const std::vector<int>& exchange_cores;
  MeasuredModel model;

  /// Steps over the given ranks; `order`, which lives as long as they, gives the rows of the last one.
  MeasuredTraining over(const RankContext& rank, FileOrder*& order) {
    auto batches = std::make_unique<FileOrder>(rows,
                                               RowLayout{.length = options.pad ? options.max_length : 0,
                                                         .padding = pretrained.padding,
                                                         .classes = pretrained.spec.classes},
                                               options.batch, rank);
    order = batches.get();
    const int64_t longest = options.pad ? options.max_length : rows.longest;
    const StepSize step{
        .micro_sequences = options.batch, .micro_rows = options.batch * longest, .step_rows = options.batch * longest};
    return {model,
            rank,
            plan_rank({.spec = pretrained.spec, .mesh = {.data = rank.size()}}, measured_config(options.dtype), step,
                      planned(rank, exchange_cores)),
            options.batch * rank.size(),
            2e-5,
            std::move(batches)};
  }

  /// Model FLOPs of these rows' tokens without padding.
  double flops(const std::vector<uint32_t>& which) const {
    double flops = 0;
    for (const uint32_t row : which) {
      const auto length = static_cast<int64_t>(rows.offsets[row + 1] - rows.offsets[row]);
      flops += train_flops_per_token(pretrained.spec, length) * static_cast<double>(length);
    }
    return flops;
  }
};

/// Steps on one rank.
struct OwnSteps {
  OwnSteps(Tuning& t, const RankContext& rank) : tuning(t), training(t.over(rank, order)) {}
  /// A step, and on a CPU a pass over its GEMMs.
  double run(std::optional<CeilingMeter>& ceiling) {
    const StepTime time = training.run();
    seconds.push_back(time.seconds);
    losses.push_back(time.loss);
    flops_per_second.push_back(tuning.flops(order->last()) / seconds.back());
    if (ceiling) ceiling->pass();
    return seconds.back();
  }

  Tuning& tuning;
  FileOrder* order = nullptr;
  MeasuredTraining training;
  std::vector<double> seconds, flops_per_second, losses;
};

/// Both start with the first batch; one warm-up step each, then in turn.
GluePeer measure_peer(const GlueBenchOptions& o, const std::string& padding, int threads, OwnSteps& own,
                      std::optional<CeilingMeter>& ceiling) {
  log::info("starting PyTorch, {} padding", padding);
  PeerProcess process({o.python, o.peer_script, "--model", o.model, "--data-dir", o.data_dir, "--batch",
                       std::to_string(o.batch), "--max-length", std::to_string(o.max_length), "--padding", padding,
                       "--threads", std::to_string(threads), "--dtype", std::string(name_of(o.dtype))});
  own.training.restart();
  own.training.run();
  std::vector<double> theirs;
  for (int64_t i = 0; i < o.steps; ++i) {
    theirs.push_back(process.measure().seconds);
    const double seconds = own.run(ceiling);
    log::info("PyTorch {:.3f} s, ours {:.3f} s", theirs.back(), seconds);
  }
  return {padding, static_cast<double>(o.batch) / median(theirs)};
}

void measure_alone(Tuning& tuning, const RankContext& rank, GlueBenchResult& result) {
  const GlueBenchOptions& o = tuning.options;
  OwnSteps own(tuning, rank);
  const double tokens = result.tokens_per_row * static_cast<double>(o.batch);
  std::optional<CeilingMeter> ceiling;
  if (tuning.model.ops.device().is_host())
    ceiling.emplace(tuning.pretrained.spec, o.dtype, static_cast<int64_t>(tokens), rank.threads);
  if (o.pytorch) {
    for (const char* padding : {"dynamic", "full"})
      result.peers.push_back(measure_peer(o, padding, rank.threads, own, ceiling));
  } else {
    own.training.run();
    while (static_cast<int64_t>(own.seconds.size()) < o.steps) own.run(ceiling);
  }
  result.median = median(own.seconds);
  result.fastest = *std::ranges::min_element(own.seconds);
  result.slowest = *std::ranges::max_element(own.seconds);
  result.rows_per_second = static_cast<double>(o.batch) / result.median;
  result.model_flops_per_second = median(own.flops_per_second);
  result.losses = own.losses;
  if (!ceiling) return;
  result.ceiling = ceiling->ceiling();
  result.share = ceiling->share(own.flops_per_second);
}

}  // namespace

GlueBenchResult bench_glue(const GlueBenchOptions& given, Ops& ops, const RankContext& rank,
                           const std::vector<int>& exchange_cores) {
  Scalars scalars(rank.world);
  GlueBenchOptions o = given;
  fetch_named({.model = o.model, .tokenizer = "", .glue_task = o.data_dir.empty() ? glue_task(o.task).name : ""}, rank,
              scalars, {});
  PretrainedModel model;
  EncodedRows rows;
  together(scalars, [&] {
    const GlueOptions options = glue_options(o);
    const GlueData data = read_data(options);
    require(!o.pytorch || (data.task.name == "mrpc" && rank.size() == 1), ErrorKind::usage,
            "--peer is supported only on one rank, with --task mrpc");
    require(!o.pytorch || ops.device().is_host(), ErrorKind::usage,
            "--peer measures PyTorch on the CPU, but this is a GPU; add `--device cpu`");
    model = open_pretrained(options, data.task);
    o.model = model.folder;
    if (o.data_dir.empty()) o.data_dir = hub::place_of_glue(data.task.name).path;
    require(o.max_length <= model.spec.context, ErrorKind::usage,
            "--max-seq-length {} is more than the {} positions of {}", o.max_length, model.spec.context, given.model);
    rows = encode_sets(data.train, data.task, model, o.max_length).at(0).rows;
    require(rows.rows() >= o.batch * rank.size(), ErrorKind::usage, "--batch {} on {} is more than the {} of {}",
            o.batch, count_text(rank.size(), "rank"), count_text(rows.rows(), "row"), data.train[0].path);
  });
  // Every rank has the whole model, whatever the size of the groups that it is in.
  const RankPlan whole = plan_rank({.spec = model.spec, .mesh = {.data = 1}}, measured_config(o.dtype), {},
                                   {.hosts = rank.hosts.first(1)});
  Tuning tuning{o, model, rows, exchange_cores, {whole, ops}};
  GlueBenchResult result;
  result.tokens_per_row = static_cast<double>(rows.tokens.size()) / static_cast<double>(rows.rows());
  if (rank.size() == 1) {
    measure_alone(tuning, rank, result);
  } else {
    const auto make = [&](size_t, const RankContext& group) -> MeasuredStep {
      return [steps = std::make_shared<OwnSteps>(tuning, group)] { return steps->training.run(); };
    };
    result.ranks = measure_in_turn(rank, growing_groups(rank.size()), o.steps, make);
  }
  return result;
}

}  // namespace trireme
