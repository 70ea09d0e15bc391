#pragma once
// trainer_state.json of transformers, for tools that read it beside a model.

#include <string>

#include "base/json.h"
#include "report/run_log.h"

namespace trireme {

/// The records up to `step` with transformers' keys: log_history (loss, grad_norm, learning_rate; eval_loss and the
/// task's measures as eval_NAME), global_step, max_steps, epoch, best_metric and best_global_step (of the validation
/// loss), num_input_tokens_seen. Numbers that are not finite are left out.
std::string trainer_state_json(const RunLog& log, int64_t step);

/// What log_history has of a training step.
Json training_entry(const Metrics& metrics);

}  // namespace trireme
