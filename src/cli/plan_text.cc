#include "cli/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count.h"
#include "plan/layout_choices.h"

namespace trireme {
namespace {

constexpr double kGiga = 1e9;
constexpr double kDay = 86400;

double gigabytes(size_t bytes) { return static_cast<double>(bytes) / kGiga; }

std::string_view name_of_recomputed(Recomputed recomputed) {
  return recomputed == Recomputed::nothing ? "none" : recomputed == Recomputed::attention ? "attention" : "full";
}

std::string mesh_text(const StepLayout& layout) {
  return fmt::format("{} x {} x {}{}", layout.data, layout.tensor, layout.pipeline,
                     layout.chunks > 1 ? fmt::format(", {} chunks", layout.chunks) : "");
}

/// Why this one loses against the best.
std::string loss_text(const RunForecast& best, const RunForecast& other, PlanGoal goal) {
  if (goal == PlanGoal::memory)
    return fmt::format("{:+.2f} GB: state {:+.2f}, activations {:+.2f}", (other.memory() - best.memory()) / kGiga,
                       gigabytes(other.plan.memory.state) - gigabytes(best.plan.memory.state),
                       gigabytes(other.plan.memory.activations) - gigabytes(best.plan.memory.activations));
  const std::string price =
      goal == PlanGoal::cost ? fmt::format("{:+.2f} USD, ", other.dollars() - best.dollars()) : "";
  const double more = other.time.total() / best.time.total() - 1;
  const std::string causes = difference_text(best.time, other.time);
  constexpr double kEqual = 1e-3;
  if (more < kEqual && price.empty())
    return fmt::format("as fast, {:+.2f} GB", (other.memory() - best.memory()) / kGiga);
  return fmt::format("{}{:+.1f} % time{}{}", price, 1e2 * more, causes.empty() ? "" : ": ", causes);
}

}  // namespace

std::string to_text(const RunForecast& f) {
  const NodeType& node = f.on.type;
  const StepLayout& layout = f.layout;
  const MemoryPlan& memory = f.plan.memory;
  std::string text = fmt::format("nodes       {} of {} ({}), {}\n", f.on.nodes, node.name, node.processor,
                                 count_text(f.on.ranks(), "rank"));
  text += fmt::format("layout      data {} x tensor {} x pipeline {}, {} of {} per step, shard {}, recompute {}\n",
                      layout.data, layout.tensor, layout.pipeline, count_text(layout.micro_batches(), "micro-batch"),
                      count_text(layout.micro_batch, "sequence"), name_of(layout.shard),
                      name_of_recomputed(layout.recomputed));
  text += fmt::format(
      "memory      {:.2f} GB for the {} that needs most: state {:.2f}, activations {:.2f}, scratch {:.2f}, exchange "
      "{:.2f}{}, snapshot {:.2f}{}; a rank can have {:.2f} GB\n",
      f.memory() / kGiga, node.gpus > 0 ? "GPU" : "rank", gigabytes(memory.state), gigabytes(memory.activations),
      gigabytes(memory.scratch), gigabytes(memory.exchange),
      node.gpus > 0 ? fmt::format(", NCCL about {:.2f}", gigabytes(memory.nccl)) : "", gigabytes(memory.snapshot),
      node.gpus > 0 ? " on the host" : "", f.memory_limit() / kGiga);
  if (!f.plan.trained.all())
    text += fmt::format("trained     {}; operations, links and times below are those of training all of them\n",
                        describe_trained(f.plan.table->whole()));
  text += fmt::format("operations  {:.4g} TFLOP per step\n", f.flops / 1e12);
  text +=
      fmt::format("links       a rank sends per step: tensor sums {:.3f} GB, stages {:.3f} GB, gradients {:.3f} GB\n",
                  f.bytes.tensor / kGiga, f.bytes.stages / kGiga, f.bytes.exchange / kGiga);
  text += fmt::format("step        {:.3f} s: {}\n", f.time.total(), causes_text(f.time, 0));
  text += fmt::format("speed       {:.4g} tokens/s, {:.4g} tokens per day\n", f.tokens_per_second(),
                      f.tokens_per_second() * kDay);
  if (f.steps == 0) return text;
  text += fmt::format("to the end  {:.3g} days for {}", f.days(), count_text(f.steps, "step"));
  if (node.price_per_hour > 0)
    text += fmt::format(", {:.2f} USD at {:.2f} USD per node and hour ({})", f.dollars(), node.price_per_hour,
                        node.price_date.empty() ? "date unknown" : node.price_date);
  return text + "\n";
}

std::string to_text(const std::vector<RunForecast>& best, PlanGoal goal) {
  std::string text = fmt::format("{:>4}  {:>5}  {:<24}  {:>5}  {:<10}  {:<9}  {:<8}  {:>9}  {:>9}  {:>10}  {}\n", "",
                                 "nodes", "data x tensor x pipeline", "micro", "shard", "recompute", "sequence", "step",
                                 "memory", "USD", "why");
  for (size_t i = 0; i < best.size(); ++i) {
    const RunForecast& f = best[i];
    const std::string why = i == 0 ? causes_text(f.time, 0.05) : loss_text(best[0], f, goal);
    const std::string price = f.on.type.price_per_hour > 0 && f.steps > 0 ? fmt::format("{:.2f}", f.dollars()) : "-";
    text += fmt::format("{:>4}  {:>5}  {:<24}  {:>5}  {:<10}  {:<9}  {:<8}  {:>7.3f} s  {:>6.2f} GB  {:>10}  {}\n",
                        i + 1, f.on.nodes, mesh_text(f.layout), f.layout.micro_batch, name_of(f.layout.shard),
                        name_of_recomputed(f.layout.recomputed), f.layout.sequence_parallel ? "yes" : "no",
                        f.time.total(), f.memory() / kGiga, price, why);
  }
  if (best.empty()) return text;
  return text + fmt::format("\nto use the first{}:\n{}",
                            best[0].on.nodes > 1 || goal == PlanGoal::cost
                                ? fmt::format(" on {}", count_text(best[0].on.nodes, "node"))
                                : "",
                            layout_yaml(best[0].layout));
}

std::string fits_text(const RunForecast& f, const std::vector<RunForecast>& best, const std::vector<Remedy>& remedies) {
  const std::string needs =
      f.on.type.gpus > 0 ? fmt::format("a GPU needs {:.2f} GB, and those of node type {} have {:.2f} GB for a rank",
                                       f.memory() / kGiga, f.on.type.name, f.memory_limit() / kGiga)
                         : fmt::format("a rank needs {:.2f} GB, and a node of type {} leaves {:.2f} GB for each of {}",
                                       f.memory() / kGiga, f.on.type.name, f.memory_limit() / kGiga,
                                       count_text(f.on.per_node, "rank"));
  std::string text = "does not fit: " + needs;
  if (f.memory() - static_cast<double>(f.plan.memory.nccl) <= f.memory_limit())
    text += fmt::format(", {:.2f} GB of them for NCCL's connections with other ranks", gigabytes(f.plan.memory.nccl));
  for (const Remedy& remedy : remedies)
    text += fmt::format("{} {} it needs {:.2f} GB{}", &remedy == remedies.data() ? "; with" : ", with", remedy.options,
                        remedy.forecast.memory() / kGiga, &remedy == remedies.data() ? " and fits" : "");
  if (!best.empty()) return text + (remedies.empty() ? "; these layouts do" : ", and these layouts do");
  if (!remedies.empty()) return text;
  return text + "; no layout of these nodes fits: use more nodes or a smaller model";
}

std::string batch_text(const PlannedNodes& on, int64_t sequences, const std::vector<int64_t>& nodes) {
  std::vector<std::string> counts;
  for (const int64_t one : nodes) counts.push_back(fmt::format("{} ({})", one, count_text(one * on.per_node, "rank")));
  return fmt::format("no layout of {} divides a batch of {} evenly{}", count_text(on.ranks(), "rank"),
                     count_text(sequences, "sequence"),
                     counts.empty()
                         ? "; change batch.global"
                         : fmt::format("; --nodes {} can, or change batch.global", fmt::join(counts, " or ")));
}

Json to_json(const RunForecast& f) {
  const MemoryPlan& memory = f.plan.memory;
  const PlannedTime& time = f.time;
  Json json{{"nodes", f.on.nodes}, {"node", f.on.type.name}, {"ranks", f.on.ranks()}};
  json["layout"] = {{"data", f.layout.data},
                    {"tensor", f.layout.tensor},
                    {"pipeline", f.layout.pipeline},
                    {"chunks", f.layout.chunks},
                    {"sequence", f.layout.sequence_parallel},
                    {"micro", f.layout.micro_batch},
                    {"micro_batches", f.layout.micro_batches()},
                    {"shard", name_of(f.layout.shard)},
                    {"recompute", name_of_recomputed(f.layout.recomputed)}};
  json["memory_bytes"] = {{"state", memory.state},       {"activations", memory.activations},
                          {"scratch", memory.scratch},   {"exchange", memory.exchange},
                          {"snapshot", memory.snapshot}, {"rank", f.memory()},
                          {"limit", f.memory_limit()}};
  if (f.on.type.gpus > 0) json["memory_bytes"]["nccl"] = memory.nccl;
  json["fits"] = f.fits();
  json["flops_per_step"] = f.flops;
  json["link_bytes"] = {{"tensor", f.bytes.tensor}, {"stages", f.bytes.stages}, {"gradients", f.bytes.exchange}};
  json["step_seconds"] = {
      {"total", time.total()},           {"products", time.products}, {"passes", time.passes},
      {"tensor_sums", time.tensor_sums}, {"launches", time.launches}, {"stage_messages", time.stage_messages},
      {"bubble", time.bubble},           {"exchange", time.exchange}, {"update", time.update}};
  json["tokens_per_second"] = f.tokens_per_second();
  json["tokens_per_day"] = f.tokens_per_second() * kDay;
  json["steps"] = f.steps;
  json["days"] = f.days();
  if (f.on.type.price_per_hour > 0) json["usd"] = f.dollars();
  return json;
}

std::string to_text(const SimulatedStep& step, const RunForecast& f) {
  return fmt::format(
      "simulated   {:.3f} s per step ({:+.1f} % relative to the plan), {} {}; a group computes at least {:.0f} % of "
      "it\n",
      step.seconds, 1e2 * (step.seconds / f.time.total() - 1), count_text(step.groups, "tensor group"),
      step.exact ? "one by one" : "in place of equal ones", 1e2 * (1 - step.idle));
}

Json to_json(const SimulatedStep& step) {
  return {{"seconds", step.seconds}, {"idle", step.idle}, {"exact", step.exact}, {"groups", step.groups}};
}

Json trace_json(const SimulatedStep& step) {
  using Kind = SimulatedEvent::Kind;
  Json events = Json::array();
  std::set<int64_t> ranks;
  for (const SimulatedEvent& event : step.events) {
    const bool computes = event.kind == Kind::forward || event.kind == Kind::backward;
    const char* word = event.kind == Kind::forward    ? "forward"
                       : event.kind == Kind::backward ? "backward"
                       : event.kind == Kind::message  ? "message"
                       : event.kind == Kind::exchange ? "exchange"
                                                      : "update";
    const std::string name =
        computes || event.kind == Kind::message ? fmt::format("{} {}.{}", word, event.chunk, event.micro_batch) : word;
    events.push_back({{"name", name},
                      {"cat", word},
                      {"ph", "X"},
                      {"ts", event.start * 1e6},
                      {"dur", event.seconds * 1e6},
                      {"pid", event.rank},
                      {"tid", computes || event.kind == Kind::update ? 0
                              : event.kind == Kind::message          ? 1
                                                                     : 2}});
    ranks.insert(event.rank);
  }
  const auto name = [&](const char* what, int64_t rank, int row, const std::string& text) {
    events.push_back({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", {{"name", text}}}});
  };
  for (const int64_t rank : ranks) {
    events.push_back({{"name", "process_sort_index"}, {"ph", "M"}, {"pid", rank}, {"args", {{"sort_index", rank}}}});
    name("process_name", rank, 0, fmt::format("tensor group of rank {}", rank));
    constexpr std::array kRows = {"compute", "messages", "gradient exchange"};
    for (int row = 0; row < 3; ++row) name("thread_name", rank, row, kRows[static_cast<size_t>(row)]);
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ms"}};
}

std::string to_text(const FailurePlan& plan, const RunForecast& f) {
  constexpr double kHour = 3600;
  const double steps = std::max(1.0, std::round(plan.interval_seconds / f.time.total()));
  return fmt::format(
      "failures    one in {:.1f} h of {}; --checkpoint.every {:.0f} loses least ({:.0f} s between snapshots): "
      "training takes {:.1f} % of the time, {:.3g} days to the end\n",
      plan.failure_seconds / kHour, count_text(f.on.nodes, "node"), steps, plan.interval_seconds, 1e2 * plan.useful,
      f.days() / plan.useful);
}

}  // namespace trireme
