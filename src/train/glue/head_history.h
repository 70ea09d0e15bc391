#pragma once
// Whether a model that is only evaluated, or predicts, was ever trained on the task.

#include <string>

#include "base/json.h"
#include "data/glue/task.h"

namespace trireme {

/// Why the classifier of a folder tells nothing about the task, by what its config.json records (finetuning_task, names
/// of classes) and by whether its files had one at all; empty where nothing speaks against it. The diagnostic set ax is
/// for models of mnli.
std::string why_untrained(const Json& config, bool head_is_new, const GlueTask& task);

}  // namespace trireme
