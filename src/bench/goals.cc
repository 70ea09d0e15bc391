#include "bench/goals.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/count.h"
#include "base/error.h"
#include "ops/nvml.h"

namespace trireme {
namespace {

constexpr double kSlowClock = 0.8;  // of the highest: power and heat explain less

constexpr Goal kGoals[] = {
    {"gpt2-124m", "H100", 1, 1, 463e3, "tokens/s", "llm.c on an H100"},
    {"neox-1.3b", "H100", 1, 1, 45e3, "tokens/s", "the project's goal"},
    {"gpt2-1558m", "H100", 1, 1, 47e3, "tokens/s", "the project's goal"},
    {"neox-2.7b", "H100", 1, 1, 27e3, "tokens/s", "the project's goal"},
    {"opt-125m", "A100", 8, 1, 200e3, "tokens/s", "metaseq's benchmark on 8 A100 of one node"},
    {"all_reduce", "A100", 16, 2, 187, "GB/s", "nccl-tests from 2 GB on, on 2 x 8 A100 with InfiniBand"},
};

void add_clocks(const std::vector<ClockState>& clocks, std::vector<std::string>& causes) {
  for (const ClockState& clock : clocks) {
    if (!clock.reasons.empty())
      causes.push_back(fmt::format("GPU {}: its clocks are held down: {}", clock.gpu, fmt::join(clock.reasons, ", ")));
    if (clock.megahertz > 0 && clock.megahertz < kSlowClock * clock.most_megahertz)
      causes.push_back(fmt::format("GPU {}: {} MHz of {} MHz just after the measurement", clock.gpu, clock.megahertz,
                                   clock.most_megahertz));
  }
}

void add_links(const NodeGpus& node, std::vector<std::string>& causes) {
  for (size_t i = 0; i < node.links.size(); ++i)
    for (size_t j = i + 1; j < node.links.size(); ++j)
      if (const std::string& link = node.links[i][j]; !link.empty() && !link.starts_with("NV"))
        causes.push_back(fmt::format("GPUs {} and {} are connected by PCIe ({}), not NVLink", i, j, link));
}

}  // namespace

std::optional<Goal> find_goal(std::string_view subject, std::string_view hardware, int gpus, int hosts) {
  for (const Goal& goal : kGoals)
    if (goal.subject == subject && hardware.find(goal.card) != std::string_view::npos && goal.gpus == gpus &&
        goal.hosts == hosts)
      return goal;
  return std::nullopt;
}

std::vector<ClockState> read_clocks() {
  constexpr unsigned kMultiprocessors = 1;
  std::vector<ClockState> clocks;
  try {
    const nvml::Session session;
    const auto count = session->number<unsigned>("nvmlDeviceGetCount_v2").value_or(0);
    for (unsigned i = 0; i < count; ++i) {
      nvml::Device device = nullptr;
      if (session->call("nvmlDeviceGetHandleByIndex_v2", i, &device) != nvml::kSuccess) continue;
      ClockState& clock = clocks.emplace_back();
      clock.gpu = static_cast<int>(i);
      const unsigned long long bits = nvml::clock_reasons(*session, device).value_or(0);
      for (const nvml::ClockReason& reason : nvml::kClockReasons)
        if ((bits & reason.bit) != 0 && reason.label != std::string_view("idle"))
          clock.reasons.emplace_back(reason.name);
      const auto megahertz = [&](const char* name) {
        return static_cast<int>(session->number<unsigned>(name, device, kMultiprocessors).value_or(0));
      };
      clock.megahertz = megahertz("nvmlDeviceGetClockInfo");
      clock.most_megahertz = megahertz("nvmlDeviceGetMaxClockInfo");
    }
  } catch (const Error&) {  // no driver's library: nothing is known
  }
  return clocks;
}

std::vector<std::string> likely_causes(const NodeGpus& node, const std::vector<ClockState>& clocks,
                                       const std::vector<std::string>& libraries) {
  std::vector<std::string> causes;
  add_clocks(clocks, causes);
  std::ranges::copy(complaints_of(node), std::back_inserter(causes));
  add_links(node, causes);
  const auto has = [&](const char* name) {
    return std::ranges::any_of(libraries, [&](const std::string& one) { return one.starts_with(name); });
  };
  if (has("cuBLASLt") && !has("cuDNN"))
    causes.emplace_back("attention is computed by this program's kernels; cuDNN's are faster (--cudnn)");
  if (causes.empty())
    causes.push_back(fmt::format("none was found; libraries: {}; driver {}",
                                 libraries.empty() ? "unknown" : fmt::format("{}", fmt::join(libraries, ", ")),
                                 node.driver.empty() ? "unknown" : node.driver));
  return causes;
}

std::optional<GoalResult> compare_with_goal(const std::optional<Goal>& known, double asked, std::string_view unit,
                                            double got, const std::vector<std::string>& libraries) {
  if (!known && asked <= 0) return std::nullopt;
  GoalResult result{.goal = asked > 0 ? asked : known->value, .got = got};
  const std::string of = asked > 0
                             ? "--goal"
                             : fmt::format("{}{}, {}", known->gpus == 1 ? "one " : fmt::format("{} ", known->gpus),
                                           known->card, known->source);
  result.text = fmt::format("{:g} {} ({}): {:.1f} % {}", result.goal, unit, of, 1e2 * got / result.goal,
                            result.reached() ? "reached" : "only");
  if (!result.reached()) result.causes = likely_causes(read_node_gpus(), read_clocks(), libraries);
  return result;
}

std::string to_text(const GoalResult& result) {
  std::string text = fmt::format("goal               {}\n", result.text);
  for (const std::string& cause : result.causes) text += fmt::format("likely cause       {}\n", cause);
  return text;
}

Json to_json(const GoalResult& result) {
  return {{"value", result.goal}, {"reached", result.reached()}, {"causes", result.causes}};
}

}  // namespace trireme
