#pragma once
// What a run of a configuration needs on nodes of a type, before it is started: memory from the trainer's own plan,
// time from plan/step_time; nothing is allocated, and the ranks need not exist. At its end: the time of its steps
// beside that plan.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "config/load.h"
#include "ops/ops.h"
#include "plan/node_type.h"
#include "plan/simulator.h"
#include "train/plan.h"
#include "train/run.h"

namespace trireme {

/// What a run is planned for.
struct PlannedNodes {
  NodeType type;
  int64_t nodes = 1, per_node = 1;  ///< ranks of each node
  int64_t ranks() const { return nodes * per_node; }
};

struct RunForecast {
  LoadedConfig loaded;  ///< its batch and mesh are resolved
  RankPlan plan;        ///< of the rank that needs most memory
  PlannedNodes on;
  ModelSize model;
  StepLayout layout;
  PlannedTime time;
  LinkBytes bytes;               ///< that a rank sends in a step
  double tokens = 0, flops = 0;  ///< of a step in all ranks; flops: without what is repeated
  int64_t steps = 0;             ///< of the run

  /// Bytes of a rank where its tensors are: on a GPU without the copy for snapshots, and without the memory of CUDA and
  /// NCCL themselves.
  double memory() const;
  double memory_limit() const;  ///< bytes that a rank may use
  bool fits() const { return memory() <= memory_limit(); }
  double tokens_per_second() const { return tokens / time.total(); }
  double days() const;     ///< of all steps
  double dollars() const;  ///< of all steps; 0: no price known
};

/// The sizes of plan/step_time for a run. sequence: tokens.
ModelSize size_of_model(const Spec& spec, int64_t sequence);
/// plan: of any rank. config: its batch is resolved.
StepLayout layout_of_run(const Config& config, const RankPlan& plan);
/// gpus: the ranks compute on GPUs.
RunFormats formats_of(const Config& config, bool gpus);

/// loaded: from files and flags, its model resolved. Throws Error::config for a layout or batch that these ranks cannot
/// have, an unknown vocabulary, rates of the type that are not positive, and a run.device that is not the type's. On a
/// type with GPUs each rank has one.
RunForecast forecast_run(LoadedConfig loaded, const PlannedNodes& on);

/// Options that make a configuration fit.
struct Remedy {
  std::string options;  ///< "--mesh.tensor 4"
  RunForecast forecast;
};
/// What helps a configuration that does not fit: the least larger mesh.tensor, doubled, that does, and between many
/// GPUs what needs fewer of NCCL's connections. Only what then fits; empty: nothing does.
std::vector<Remedy> remedies_for(const LoadedConfig& loaded, const RunForecast& forecast);

enum class PlanGoal : uint8_t { time, cost, memory };
template <>
struct Names<PlanGoal> {
  static constexpr Named<PlanGoal> kAll[] = {
      {"time", PlanGoal::time}, {"cost", PlanGoal::cost}, {"memory", PlanGoal::memory}};
};

/// The best layouts that fit, best first; of one mesh the best only, unless there is just one mesh. Goals: seconds of a
/// step; USD to the end, on 1, 2, 4 ... nodes, and the shorter time where USD differ by less than 1 %; bytes of a rank.
/// Throws Error::config for goal cost without a price.
std::vector<RunForecast> best_layouts(const LoadedConfig& loaded, const PlannedNodes& on, PlanGoal goal, size_t count);

/// Numbers of nodes whose ranks can share the batch of a configuration: the largest below and the least above `on`,
/// which cannot. Nullopt: `on` can.
std::optional<std::vector<int64_t>> nodes_that_share_the_batch(const LoadedConfig& loaded, const PlannedNodes& on);

/// The step of a forecast event by event, with the layers that its stages have. options.part_layers is set here.
SimulatedStep simulate_run(const RunForecast& forecast, SimulationOptions options);

/// The configuration with this layout instead of its own.
LoadedConfig with_layout(LoadedConfig loaded, const StepLayout& layout);
/// Lines of YAML that set this layout.
std::string layout_yaml(const StepLayout& layout);

/// Collective. Logs compare_with_plan() for the run's steps after measuring the copy rate of all ranks at once. Logs
/// nothing after fewer than 10 steps or 2 seconds, which say little about the speed. Where the batches of a run differ
/// in size, plan and measurement are of the mean of the last 101 steps.
void log_step_plan(const Run& run, const RankContext& rank, Scalars& scalars, Ops& ops);

}  // namespace trireme
