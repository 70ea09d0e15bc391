#include "train/run.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "config/document.h"
#include "config/validate.h"
#include "train/facts.h"
#include "train/plan.h"

namespace trireme {

Run::Run(const RunPlan& of, bool writes_folder, Device& device)
    : plan(of),
      writes(writes_folder),
      table(plan.part.table.value()),
      data_files(plan.data_files),
      state(table, plan.part.dtype, plan.part.trains, plan.part.kept, device),
      schedule(schedule_of(plan.config())),
      skips(plan.config().run.dir, plan.config().run.max_skips, loss_scale_options(plan.config().precision),
            plan.config().names) {
  schedule.warms_from_zero = plan.warms_from_zero;
  progress.best_loss = std::numeric_limits<double>::infinity();
  progress.loss_scale = start_loss_scale(loss_scale_options(plan.config().precision));
}

void Run::resume(const RunCounters& stored) {
  progress = stored;
  progress.loss_scale = start_loss_scale(loss_scale_options(config().precision), stored.loss_scale);
}

void Run::open_report(const RankContext& rank, RunFacts facts, LossUnit unit) {
  if (plan.part.trains) {
    const bool has_precision = std::ranges::find(facts, "precision", &RunFacts::value_type::first) != facts.end();
    if (!has_precision) facts.emplace_back("precision", name_of(plan.part.dtype));
    const RunFacts more = training_facts(plan, schedule);
    const auto precision = std::ranges::find(facts, "precision", &RunFacts::value_type::first);
    facts.insert(precision + 1, more.begin(), more.end());
  }
  reporter = std::make_unique<Reporter>(ReporterOptions{.run_dir = writes ? config().run.dir : std::string(),
                                                        .jsonl = config().log.jsonl,
                                                        .tensorboard = config().log.tensorboard,
                                                        .is_rank0 = rank.rank() == 0,
                                                        .neox_form = plan.loaded.dialect == "gpt-neox",
                                                        .unit = unit,
                                                        .most_silence = config().log.seconds,
                                                        .board = board,
                                                        .textfile = config().log.metrics_file,
                                                        .mlflow = config().log.mlflow,
                                                        .mlflow_experiment = config().log.mlflow_experiment,
                                                        .configuration = dump_json(to_json(config())),
                                                        .options = option_facts(plan.loaded),
                                                        .columns = log_columns(plan.loaded)},
                                        progress.step, config().run.steps, facts);
}

}  // namespace trireme
