#include "train/start/step_plan.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "train/profile.h"
#include "train/start/run_forecast.h"

namespace trireme {
namespace {

constexpr size_t kLeastSteps = 10;
constexpr double kLeastSeconds = 2;

/// This host as a type of node, from the rates that one of its ranks reaches beside the others.
NodeType this_host(double flops, double copied, const RankContext& rank, bool gpus) {
  NodeType type;
  type.name = "this host";
  if (gpus) {                        // rates are those of one GPU
    constexpr double kCopied = 0.9;  // of its bandwidth: pass_shares of trireme_rates()
    type.gpus = rank.local_size();
    type.tflops = flops / 1e12;
    type.product_share = 0.7;  // of one large product: docs/planner.md
    type.memory_gb_per_s = copied / kCopied / 1e9;
    type.link_gb_per_s = type.network_gbit_per_s = 1e9;  // unknown: left out of the plan
    return type;
  }
  const auto ranks = static_cast<double>(rank.local_size());
  type.cores = static_cast<int64_t>(rank.local_size()) * rank.threads;
  type.tflops = flops * ranks / 1e12;
  type.product_share = 0.9;  // of one large product: docs/planner.md
  type.memory_gb_per_s = copied * ranks / 1e9;
  type.memory_share = 1;
  type.network_gbit_per_s = 1e9;  // unknown: left out of the plan
  return type;
}

/// The sizes of steps that differ, on average.
void take_rows(const StepRows& rows, ModelSize& model, StepLayout& layout) {
  const auto micro_batches = std::max<int64_t>(1, std::llround(rows.micro_batches));
  layout.micro_batch = 1;
  layout.global_batch = layout.data * micro_batches;
  model.sequence = std::max<int64_t>(1, std::llround(rows.rows / static_cast<double>(micro_batches)));
  if (rows.rows == 0) return;
  model.attended = rows.squares / rows.rows;
  model.head_rows = rows.counted / rows.rows;
}

}  // namespace

void log_step_plan(const Run& run, const RankContext& rank, Scalars& scalars, Ops& ops) {
  const RunPlan& plan = run.plan;
  const Config& config = run.config();
  const RunSpeed& speed = run.speed;
  const bool judged = speed.steps.count() >= kLeastSteps && speed.trained_seconds >= kLeastSeconds;
  if (!scalars.any(judged)) return;
  const bool gpus = !ops.device().is_host();
  const double copied = measure_copy_rate(ops, rank.threads);
  if (rank.rank() != 0) return;
  const NodeType host = this_host(speed.peak_flops, copied, rank, gpus);
  const StepRows rows = speed.steps.mean_rows();
  const bool classifies = plan.spec.head == HeadKind::classifier;
  const bool differ = plan.step.varies || plan.step.uneven || classifies;
  StepLayout layout = layout_of_run(config, plan);
  ModelSize model = size_of_model(plan.spec, plan.step.micro_rows / plan.step.micro_sequences);
  if (differ) {
    take_rows(rows, model, layout);
  } else {
    layout.global_batch = plan.mesh.data * plan.step.micro_batches * plan.step.micro_sequences;
  }
  if (classifies) model.head_rows = 0;  // one row of each sequence, and few classes
  if (plan.table && plan.table->flat_count() > 0)
    model.trained = static_cast<double>(plan.table->trained_count()) / static_cast<double>(plan.table->flat_count());
  const MachineRates rates = trireme_rates(host, rank.local_size(), formats_of(config, plan.rank.gpu));
  log::info("{}", compare_with_plan(step_time(model, layout, rates),
                                    {.seconds = differ ? speed.steps.mean_seconds() : speed.steps.seconds(),
                                     .waiting = differ ? speed.steps.mean_waiting() : speed.steps.waiting(),
                                     .others = speed.used_by_others,
                                     .unknown_links = rank.local_size() < rank.size() || (gpus && rank.size() > 1),
                                     .rows = differ ? rows.rows : 0}));
}

}  // namespace trireme
