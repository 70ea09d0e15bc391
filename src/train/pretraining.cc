#include "train/pretraining.h"

#include "base/log.h"
#include "checkpoint/finite_weights.h"
#include "comm/agreement.h"
#include "text/tokenizer.h"
#include "train/facts.h"
#include "train/fetch_named.h"
#include "train/job.h"
#include "train/memory_watch.h"
#include "train/setup.h"
#include "train/trainer.h"

namespace trireme {
namespace {

class Pretraining final : public Task {
 public:
  /// Borrows both.
  Pretraining(const Setup& setup, const Backend& backend)
      : setup_(setup), backend_(backend), batches_(*setup.train, setup.batch) {}

  StepBatches& batches() override { return batches_; }
  int64_t step_samples(uint64_t) const override { return setup_.batch.global; }
  uint64_t tokens(uint64_t samples) const override { return samples * static_cast<uint64_t>(setup_.batch.sequence); }
  StepCost step_cost() const override {
    const auto tokens = static_cast<double>(setup_.batch.global * setup_.batch.sequence);
    return {.tokens = tokens,
            .flops = train_flops_per_token(setup_.spec, setup_.batch.sequence) * tokens,
            .samples = static_cast<double>(setup_.batch.global)};
  }
  const std::vector<DataFileFact>& mapped_files() const override { return setup_.data_files; }
  RunFacts facts(const Work& work, const PeakRate& peak) const override {
    return run_facts(setup_, work.session.rank(), backend_, peak);
  }

  bool evaluates_first() const override { return setup_.config().evaluation.every > 0; }
  bool evaluates_last() const override { return true; }
  bool saves_first() const override { return extra_snapshots_.contains(0); }
  bool saves_last() const override { return true; }
  Due due(const RunCounters& progress) const override {
    const auto every = [&](int64_t n) { return n > 0 && progress.step % n == 0; };
    const Config& config = setup_.config();
    return {.report = progress.step == 1 || every(config.log.every),
            .evaluation = every(config.evaluation.every),
            .snapshot = every(config.checkpoint.every) || extra_snapshots_.contains(progress.step)};
  }
  bool evaluate(Work& work) override;
  bool test(Work& work) override;
  void step_done(const StepResult&) override {}

 private:
  /// As trireme::evaluate().
  std::optional<double> loss_of(Work& work, const SampleSource& data) const;

  const Setup& setup_;
  const Backend& backend_;
  SampleBatches batches_;
  std::set<int64_t> extra_snapshots_ = extra_snapshots(setup_.loaded);
};

std::optional<double> Pretraining::loss_of(Work& work, const SampleSource& data) const {
  const Config& config = setup_.config();
  return trireme::evaluate(work.session, data, setup_.batch, config.evaluation.batches, config.optim.loss_mean);
}

bool Pretraining::evaluate(Work& work) {
  const auto start = Clock::now();
  RunCounters& progress = work.run.progress;
  const auto train_loss = loss_of(work, *setup_.train);
  if (!train_loss) return false;
  const auto validation_loss = setup_.validation ? loss_of(work, *setup_.validation) : std::nullopt;
  if (setup_.validation && !validation_loss) return false;
  if (work.saver) work.saver->saw_evaluation(validation_loss.value_or(*train_loss), setup_.validation != nullptr);
  const bool exploded = work.saver && work.saver->in_streak();  // even if the loss is a number
  EvaluationMetrics metrics{.step = progress.step,
                            .train_loss = train_loss,
                            .validation_loss = validation_loss,
                            .seconds = seconds_since(start),
                            .best = validation_loss && !exploded && *validation_loss < progress.best_loss};
  if (metrics.best) {
    progress.best_loss = *validation_loss;
    progress.best_step = progress.step;
    if (work.saver && setup_.config().checkpoint.best) work.saver->mark_best();
  }
  work.run.reporter->evaluation(metrics);
  return true;
}

bool Pretraining::test(Work& work) {
  if (!setup_.test) return true;
  const auto start = Clock::now();
  const auto loss = loss_of(work, *setup_.test);
  if (!loss) return false;
  work.run.reporter->test({.step = work.run.progress.step, .loss = *loss, .seconds = seconds_since(start)});
  return true;
}

/// Weights of a new run.
void make_weights(const Setup& setup, Run& run) {
  if (setup.init) {
    load_model(*setup.init, setup.spec, run.table, run.state);
    require_finite(run.state, run.table, setup.init->path, "training cannot begin with it; name another --model.init");
    log::info("starting from the weights of {}", setup.init->path);
  } else {
    initialize(run.state, run.table, static_cast<uint64_t>(setup.config().run.seed));
    log::info("starting from scratch");
  }
}

RunEnd pretrain(LoadedConfig loaded, const Job& job) {
  Backend backend = make_backend();
  const std::string init = loaded.config.model.init, tokenizer = loaded.config.data.tokenizer;
  const auto fetch = [&] {
    fetch_named({.model = init == "scratch" ? "" : init,
                 .tokenizer = tokenizer == kCharLevelTokenizer ? "" : tokenizer,
                 .glue_task = ""},
                job.rank, job.scalars, job.stop_reason);
  };
  Setup setup = make_setup(std::move(loaded), job.mesh, job.planned(), job.scalars, fetch);
  std::optional<MemoryWatch> watch;
  together(job.scalars, [&] {  // before anything large is allocated
    plan_memory(setup, *backend.ops);
    require_memory(setup, job.rank);
    watch.emplace(&job.rank.heartbeat->cpu());
  });
  Run run(setup, job.claim, backend.ops->device());
  Session session(setup, run.table, run.state, *backend.ops, job.rank);
  load_start(run, job.rank, job.scalars,
             "training cannot go on from it; name an earlier one with --checkpoint.resume (`trireme checkpoint list` "
             "shows them)",
             [&] { make_weights(setup, run); });
  std::optional<Saver> saver;
  if (job.claim) saver.emplace(run, session);
  Pretraining task(setup, backend);
  Trainer trainer({run, session, saver ? &*saver : nullptr}, task, job.stop_reason);
  const bool done = setup.trains ? trainer.train() : trainer.evaluate_only();
  tell_memory(job.scalars, setup.memory.total(), watch->peak());
  return {done ? 0 : exit_code(ErrorKind::stopped), run.progress.step};
}

}  // namespace

int train(LoadedConfig loaded, Process& process, std::string_view version) {
  const JobRequest request{
      .config = loaded.config, .proof = {}, .version = version, .writes = !loaded.config.evaluation.only};
  return run_job(request, process, [&](const Job& job) { return pretrain(std::move(loaded), job); });
}

}  // namespace trireme
