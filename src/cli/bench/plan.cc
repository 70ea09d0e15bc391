#include "cli/bench/benchmarks.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cli/flags.h"
#include "plan/measured_runs.h"
#include "plan/node_type.h"

namespace trireme {
namespace {

Json to_json(const JudgedRuns& judged, const FittedNumbers& fitted) {
  Json json{{"mean_error", judged.mean_error},
            {"max_error", judged.max_error},
            {"spearman", judged.models > 0 ? Json(judged.spearman) : Json()},
            {"spearman_min", judged.models > 0 ? Json(judged.least_spearman) : Json()},
            {"choice_loss", judged.choice_loss},
            {"choice_loss_max", judged.largest_choice_loss},
            {"judged", judged.judged},
            {"fitted", judged.fitted},
            {"choices", judged.groups},
            {"product_share", fitted.product_share},
            {"inner_share", fitted.inner_share}};
  if (fitted.node_share) json["node_share"] = *fitted.node_share;
  if (fitted.launch_seconds) json["launch_seconds"] = *fitted.launch_seconds;
  return json;
}

Json row_json(const MeasuredRun& run, double planned, bool fitted) {
  return {{"ranks", run.layout.ranks()},
          {"layers", run.model.layers},
          {"width", run.model.width},
          {"global_batch", run.layout.global_batch},
          {"micro_batch", run.layout.micro_batch},
          {"tensor", run.layout.tensor},
          {"data", run.layout.data},
          {"pipeline", run.layout.pipeline},
          {"measured_s", run.seconds},
          {"planned_s", planned},
          {"fitted", fitted}};
}

void print_rows(const std::vector<MeasuredRun>& runs, const std::vector<bool>& fitted,
                const std::vector<double>& planned) {
  fmt::print("{:>5} {:>6} {:>6} {:>6} {:>6} {:>5} {:>6} {:>6} {:>5} {:>10} {:>10} {:>8}\n", "row", "ranks", "width",
             "layers", "batch", "micro", "tensor", "data", "pipe", "measured", "planned", "error");
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& [model, layout, seconds] = runs[i];
    fmt::print("{:>5} {:>6} {:>6} {:>6} {:>6} {:>5} {:>6} {:>6} {:>5} {:>8.3f} s {:>8.3f} s {:>+7.1f}%{}\n", i,
               layout.ranks(), model.width, model.layers, layout.global_batch, layout.micro_batch, layout.tensor,
               layout.data, layout.pipeline, seconds, planned[i], 100 * (planned[i] / seconds - 1),
               fitted[i] ? "  fitted" : "");
  }
}

}  // namespace

int bench_plan_command(CommandLine line) {
  std::string path, json, node = "a100-80gb";
  int64_t vocabulary = 51200;
  bool rows = false;
  Flags app(
      std::move(line), "trireme bench plan",
      "Compares the planner's step times with measured runs: fits at most three numbers on the runs whose number, "
      "from 0, is a multiple of 3, and judges the others.");
  app.add("--runs", path,
          "CSV file with the columns # GPUs, global batch, micro batch, hidden size, attention heads, # layers, "
          "sequence "
          "length, tensor parallelism, data parallelism, pipeline parallelism, iteration time (ms)")
      .required()
      .not_empty();
  app.add("--node", node, "node type of the runs, or a .yaml file that describes it").not_empty().show_default();
  app.add("--vocabulary", vocabulary, "rows of the models' token matrix").in_range(1, 1 << 24).show_default();
  app.add_switch("--rows", rows, "also print every run");
  app.add("--json", json, "also write the result and every run to this file").output_file();
  app.set_footer(
      "mean_error: of |planned / measured - 1| over the judged runs. spearman: rank correlation of the judged runs of "
      "a "
      "model, mean over models. choice_loss: for each model, number of ranks and batch, the measured time of the "
      "layout that the planner ranks first, divided by the best measured time, less 1. Runs of equal layout are judged "
      "together or not at all.");
  if (const auto code = app.parse()) return *code;

  const NodeType type = find_node_type(node);
  const MachineRates machine = rates_of(type, std::max<int64_t>(type.gpus, 1));
  const std::vector<MeasuredRun> runs = read_measured_runs(path, vocabulary);
  const std::vector<bool> fitted = fitted_runs(runs);
  std::vector<MeasuredRun> fit;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (fitted[i]) fit.push_back(runs[i]);
  }
  require(!fit.empty(), ErrorKind::data, "{}: no runs; expected a line for each below the names of the columns", path);
  const FittedNumbers numbers = fit_runs(fit, machine);
  const MachineRates rates = numbers.apply(machine);
  std::vector<double> planned;
  planned.reserve(runs.size());
  for (const MeasuredRun& run : runs) planned.push_back(step_time(run.model, run.layout, rates).total());
  const JudgedRuns judged = judge_runs(runs, fitted, planned);

  if (rows) print_rows(runs, fitted, judged.planned);
  fmt::print("fitted on {}: product_share {:.4f}, inner_share {:.4f}", count_text(judged.fitted, "run"),
             numbers.product_share, numbers.inner_share);
  if (numbers.node_share) fmt::print(", node_share {:.4f}\n", *numbers.node_share);
  if (numbers.launch_seconds) fmt::print(", launch_seconds {:.2e}\n", *numbers.launch_seconds);
  fmt::print("mean_error  {:.4f} (largest {:.4f})\n", judged.mean_error, judged.max_error);
  if (judged.models == 0)
    fmt::print("spearman    unknown: no model has three judged runs\n");
  else
    fmt::print("spearman    {:.4f} (least {:.4f})\n", judged.spearman, judged.least_spearman);
  fmt::print("choice_loss {:.4f} (largest {:.4f}, {})\n", judged.choice_loss, judged.largest_choice_loss,
             count_text(judged.groups, "choice"));
  fmt::print("judged      {}\n", judged.judged);
  if (!json.empty()) {
    Json result = to_json(judged, numbers);
    for (size_t i = 0; i < runs.size(); ++i) result["runs"].push_back(row_json(runs[i], planned[i], fitted[i]));
    write_text(json, dump_valid_json(result, 1) + "\n");
  }
  return 0;
}

}  // namespace trireme
