#include "data/glue/task.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace trireme {
namespace {

using enum GlueMetric;

const std::vector<GlueTask>& table() {
  static const std::vector<std::string> entailment{"entailment", "not_entailment"};
  static const std::vector<std::string> three{"entailment", "neutral", "contradiction"};
  static const std::vector<GlueTask> tasks{
      {"cola", "CoLA", "sentence", "", "label", {"unacceptable", "acceptable"}, {}, {matthews}},
      {"mnli", "MNLI", "sentence1", "sentence2", "gold_label", three, three, {accuracy}},
      {"mrpc", "MRPC", "#1 String", "#2 String", "Quality", {"not_equivalent", "equivalent"}, {}, {accuracy, f1}},
      {"qnli", "QNLI", "question", "sentence", "label", entailment, entailment, {accuracy}},
      {"qqp", "QQP", "question1", "question2", "is_duplicate", {"not_duplicate", "duplicate"}, {}, {accuracy, f1}},
      {"rte", "RTE", "sentence1", "sentence2", "label", entailment, entailment, {accuracy}},
      {"sst2", "SST-2", "sentence", "", "label", {"negative", "positive"}, {}, {accuracy}},
      {"stsb", "STS-B", "sentence1", "sentence2", "score", {}, {}, {pearson, spearman}},
      {"wnli", "WNLI", "sentence1", "sentence2", "label", {"not_entailment", "entailment"}, {}, {accuracy}},
      {"ax", "AX", "sentence1", "sentence2", "", three, three, {accuracy}},
  };
  return tasks;
}

}  // namespace

const char* name_of(GlueMetric metric) {
  switch (metric) {
    case accuracy:
      return "accuracy";
    case f1:
      return "f1";
    case matthews:
      return "matthews_correlation";
    case pearson:
      return "pearson";
    case spearman:
      return "spearmanr";
    case squared_error:
      return "mse";
  }
  return "";
}

std::span<const GlueTask> glue_tasks() { return table(); }

const GlueTask& glue_task(std::string_view name) {
  std::string plain = lower_case(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_'; });
  std::vector<std::string_view> names;
  for (const GlueTask& task : table()) {
    if (task.name == plain) return task;
    names.push_back(task.name);
  }
  fail(ErrorKind::usage, "\"{}\" is not a GLUE task; the tasks are {}", name, fmt::join(names, ", "));
}

}  // namespace trireme
