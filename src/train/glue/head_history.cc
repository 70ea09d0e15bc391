#include "train/glue/head_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text.h"

namespace trireme {
namespace {

/// "mnli" of "MNLI", "glue:mnli" and "mnli-mm".
std::string plain_task(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon != std::string_view::npos) name.remove_prefix(colon + 1);
  std::string plain = lower_case(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_'; });
  if (plain.starts_with("glue")) plain.erase(0, 4);
  return plain == "mnlimm" ? "mnli" : plain;
}

/// Whether the head's classes have the names of the task's classes, in any order.
bool has_classes_of(const Json& config, const GlueTask& task) {
  const auto names = config.find("id2label");
  if (names == config.end() || !names->is_object()) return false;
  std::vector<std::string> theirs, ours;
  for (const auto& name : *names) {
    if (!name.is_string()) return false;
    theirs.push_back(plain_task(name.get<std::string>()));
  }
  for (const std::string& name : task.labels) ours.push_back(plain_task(name));
  std::ranges::sort(theirs);
  std::ranges::sort(ours);
  return theirs == ours;
}

constexpr const char* kNoClassifier = "it has no classifier, so a new one gets random weights";

}  // namespace

std::string why_untrained(const Json& config, bool head_is_new, const GlueTask& task) {
  const std::string wanted = task.name == "ax" ? "mnli" : task.name;
  const auto recorded = config.find("finetuning_task");
  if (recorded != config.end() && recorded->is_string() && !recorded->get<std::string>().empty()) {
    const std::string task_there = plain_task(recorded->get<std::string>());
    if (head_is_new && task_there != wanted)
      return fmt::format("it was fine-tuned on {}, whose classifier does not fit, so a new one gets random weights",
                         task_there);
    if (head_is_new) return kNoClassifier;
    if (task.name == "None") return "";
    return task_there == wanted ? "" : fmt::format("it was fine-tuned on {}", task_there);
  }
  if (head_is_new) return kNoClassifier;
  if (task.name != "ax" || has_classes_of(config, task)) return "";
  return "its config.json has neither finetuning_task mnli nor the classes entailment, neutral, contradiction";
}

}  // namespace trireme
