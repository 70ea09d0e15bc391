#pragma once
// What a card should reach, shown beside what was measured on it, and the likely causes of less.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "ops/gpu_node.h"

namespace trireme {

/// Exit code of a measurement below its goal.
inline constexpr int kBelowGoal = 3;

struct Goal {
  std::string_view subject;  ///< a preset, trained in bf16; "all_reduce"
  std::string_view card;     ///< part of the name that the driver gives
  int gpus = 1, hosts = 1;   ///< gpus: of all hosts
  double value = 0;
  std::string_view unit;    ///< "tokens/s"
  std::string_view source;  ///< what reached it
};

/// hardware: Backend::hardware. Nothing: no goal is known for this.
std::optional<Goal> find_goal(std::string_view subject, std::string_view hardware, int gpus, int hosts);

/// A measurement and its goal.
struct GoalResult {
  double goal = 0, got = 0;
  std::string text = {};                 ///< "463000 tokens/s of one H100 (llm.c): 95 % reached"
  std::vector<std::string> causes = {};  ///< of a result below the goal, likely ones
  bool reached() const { return got >= goal; }
};
/// asked: the user's goal in the unit, instead of the table's; 0: none. Nullopt: without a goal. libraries:
/// Backend::libraries. Reads the node's GPUs if the goal is not reached.
std::optional<GoalResult> compare_with_goal(const std::optional<Goal>& known, double asked, std::string_view unit,
                                            double got, const std::vector<std::string>& libraries);

/// Lines "goal ..." and "likely cause ...".
std::string to_text(const GoalResult& result);
Json to_json(const GoalResult& result);

/// What holds a GPU's clocks down, as nvidia-smi names it.
struct ClockState {
  int gpu = 0;
  std::vector<std::string> reasons = {};
  int megahertz = 0, most_megahertz = 0;  ///< of the multiprocessors; 0: unknown
};
/// The clocks of this node's GPUs now; empty if the driver's library does not say.
std::vector<ClockState> read_clocks();
/// Why GPUs of such a node may be slow; never empty. libraries: that compute.
std::vector<std::string> likely_causes(const NodeGpus& node, const std::vector<ClockState>& clocks,
                                       const std::vector<std::string>& libraries);

}  // namespace trireme
