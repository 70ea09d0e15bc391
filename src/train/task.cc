#include "train/task.h"

#include "base/count.h"
#include "base/log.h"

namespace trireme {

Due due_by_options(const RunPlan& plan, const RunCounters& progress) {
  const Config& config = plan.config();
  const auto every = [&](int64_t n) { return n > 0 && progress.step % n == 0; };
  return {.report = progress.step == 1 || every(config.log.every),
          .evaluation = every(config.evaluation.every),
          .snapshot = every(config.checkpoint.every) || plan.extra_snapshots.contains(progress.step)};
}

bool is_patience_over(const Run& run) {
  const EvaluationOptions& evaluation = run.config().evaluation;
  const RunCounters& progress = run.progress;
  if (evaluation.patience == 0 || evaluation.every == 0 || progress.best_step < 0) return false;
  if ((progress.step - progress.best_step) / evaluation.every < evaluation.patience) return false;
  log::info(
      "training ends early: the validation loss has not been lower in {} in a row; the best is {:.4f}, at step {}",
      count_text(evaluation.patience, "evaluation"), progress.best_loss, progress.best_step);
  return true;
}

void record_evaluation(Work& work, EvaluationMetrics metrics) {
  RunCounters& progress = work.run.progress;
  const std::optional<double>& loss = metrics.validation_loss;
  if (work.saver) work.saver->record_evaluation(loss ? *loss : metrics.train_loss.value(), loss.has_value());
  const bool exploded = work.saver && work.saver->in_streak();  // even if the loss is finite
  metrics.step = progress.step;
  metrics.best = loss && !exploded && *loss < progress.best_loss;
  if (metrics.best) {
    progress.best_loss = *loss;
    progress.best_step = progress.step;
    if (work.saver && work.run.config().checkpoint.best) work.saver->mark_best();
  }
  work.run.reporter->evaluation(metrics);
}

}  // namespace trireme
