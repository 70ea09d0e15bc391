#pragma once
// Checks that a model that only evaluates or predicts was trained on the task before.

#include <string>

#include "base/json.h"
#include "data/glue/task.h"

namespace trireme {

/// Why the classifier of a folder cannot answer the task: by what its config.json records (finetuning_task, class
/// names) and whether its files have a classifier. Empty: no objection. The diagnostic set ax needs a model of mnli.
std::string why_untrained(const Json& config, bool head_is_new, const GlueTask& task);

}  // namespace trireme
