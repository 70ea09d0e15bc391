#include "train/glue/bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/peer_process.h"
#include "base/time.h"
#include "model/stage.h"
#include "optim/optimizer.h"
#include "train/glue/data.h"

namespace trireme {
namespace {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

GlueOptions glue_options(const GlueBenchOptions& o) {
  GlueOptions options;
  options.model = o.model;
  options.data_dir = o.data_dir;
  options.task = glue_task(o.task).name;
  options.train = true;
  return options;
}

/// A model in training on the rows in the file's order; each call of step() takes the next batch.
class TuningStep {
 public:
  TuningStep(const GlueBenchOptions& options, const PretrainedModel& model, const EncodedRows& rows)
      : options_(options),
        rows_(rows),
        packer_(
            {.length = options.pad ? options.max_length : 0, .padding = model.padding, .classes = model.spec.classes}),
        table_(model.spec),
        state_(table_, DType::f32, true),
        ops_(make_cpu_ops()),
        single_(make_single()),
        optimizer_(table_, state_, *ops_, *single_, {}),
        stage_(model.spec, {&table_, state_.weights(), state_.gradients()}, DType::f32,
               {.rows = options.batch * (options.pad ? options.max_length : rows.longest), .accumulates = false}, *ops_,
               options.threads) {
    initialize(state_, table_, 1);
  }

  /// Back to the first batch.
  void restart() { first_ = 0; }

  /// Seconds of the step.
  double step() {
    std::vector<uint32_t> which(static_cast<size_t>(options_.batch));
    std::iota(which.begin(), which.end(), static_cast<uint32_t>(first_));
    const auto start = Clock::now();
    const Batch& batch = packer_.pack(rows_, which, first_);
    optimizer_.begin_exchange();
    const Stage::Step numbers{.seed = 1, .step = static_cast<uint64_t>(updates_), .dropout = true};
    stage_.loss_and_backward(batch, numbers, 1.0f / static_cast<float>(options_.batch), Write::overwrite, &optimizer_);
    const double norm = std::sqrt(optimizer_.finish_exchange(stage_.context()));
    optimizer_.update(stage_.context(), 2e-5, ++updates_, norm);
    const double seconds = seconds_since(start);
    first_ += which.size();
    if (first_ + which.size() > static_cast<size_t>(rows_.rows())) first_ = 0;
    return seconds;
  }

 private:
  const GlueBenchOptions& options_;
  const EncodedRows& rows_;
  RowPacker packer_;
  ParameterTable table_;
  TrainingState state_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Communicator> single_;
  Optimizer optimizer_;
  Stage stage_;
  size_t first_ = 0;
  int64_t updates_ = 0;
};

/// Both start with the first batch; one warm-up step each, then in turn.
GluePeer measure_peer(const GlueBenchOptions& o, const std::string& padding, TuningStep& ours,
                      std::vector<double>& our_seconds) {
  log::info("starting PyTorch, {} padding", padding);
  PeerProcess process({o.python, o.peer_script, "--model", o.model, "--data-dir", o.data_dir, "--batch",
                       std::to_string(o.batch), "--max-length", std::to_string(o.max_length), "--padding", padding,
                       "--threads", std::to_string(o.threads)});
  ours.restart();
  ours.step();
  std::vector<double> ratios, theirs;
  for (int64_t i = 0; i < o.steps; ++i) {
    theirs.push_back(process.measure().seconds);
    our_seconds.push_back(ours.step());
    ratios.push_back(theirs.back() / our_seconds.back());
    log::info("PyTorch {:.3f} s, ours {:.3f} s", theirs.back(), our_seconds.back());
  }
  return {padding, static_cast<double>(o.batch) / median(theirs), median(ratios)};
}

}  // namespace

GlueBenchResult bench_glue(const GlueBenchOptions& o) {
  const GlueOptions options = glue_options(o);
  const GlueData data = read_data(options);
  require(!o.pytorch || data.task.name == "mrpc", ErrorKind::usage, "--peer is measured on --task mrpc only");
  const PretrainedModel model = open_pretrained(options, data.task.classes());
  require(o.max_length <= model.spec.context, ErrorKind::usage,
          "--max-seq-length {} is more than the {} positions of {}", o.max_length, model.spec.context, o.model);
  const EncodedRows rows = encode_sets(data.train, data.task, model, o.max_length).at(0).rows;
  require(rows.rows() >= o.batch, ErrorKind::usage, "--batch {} is more than the {} rows of {}", o.batch, rows.rows(),
          data.train[0].path);
  TuningStep ours(o, model, rows);
  GlueBenchResult result;
  result.tokens_per_row = static_cast<double>(rows.tokens.size()) / static_cast<double>(rows.rows());
  std::vector<double> seconds;
  if (o.pytorch) {
    for (const char* padding : {"dynamic", "full"}) result.peers.push_back(measure_peer(o, padding, ours, seconds));
  } else {
    ours.step();
    while (static_cast<int64_t>(seconds.size()) < o.steps) seconds.push_back(ours.step());
  }
  result.median = median(seconds);
  result.fastest = *std::ranges::min_element(seconds);
  result.slowest = *std::ranges::max_element(seconds);
  result.rows_per_second = static_cast<double>(o.batch) / result.median;
  return result;
}

}  // namespace trireme
