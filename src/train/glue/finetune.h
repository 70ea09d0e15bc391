#pragma once
#include <string_view>

#include "comm/process.h"
#include "train/glue/options.h"

namespace trireme {

/// Fine-tunes, evaluates and predicts as asked, on every rank of the job. Returns the exit code: 0, or 75 after a stop
/// request. Throws Error for everything that goes wrong.
int finetune(const GlueOptions& options, Process& process, std::string_view version);

}  // namespace trireme
