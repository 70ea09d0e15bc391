#include "train/trainer.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "train/guard/healing.h"
#include "train/guard/skips.h"

namespace trireme {
namespace {

constexpr int64_t kMostRollBacks = 3;  // to the same snapshot: then the samples are not the cause

}  // namespace

Trainer::Trainer(Work work, Task task, std::function<std::string()> stop_reason)
    : work_(std::move(work)),
      task_(std::move(task)),
      stop_reason_(std::move(stop_reason)),
      step_(work_.session, *task_.batches, static_cast<uint64_t>(config().run.seed), config().optim.loss_mean),
      profile_(config().log.profile, work_.session.ops().device().stream()),
      peak_(config().log.peak_tflops * 1e12, work_.session.ops(), rank().threads, rank().local_size(),
            work_.run.plan.part.dtype, scalars()),
      contention_(rank().threads),
      data_guard_(task_.mapped_files),
      data_windows_(task_.mapped_files, static_cast<uint64_t>(config().run.seed), rank().size()) {
  work_.run.speed.peak_flops = peak_.total() / rank().size();
  work_.run.speed.used_by_others = peak_.used_by_others();
  if (config().log.profile > 0) work_.session.ops().report_to(&profile_);
  open_report();
  if (work_.began) work_.began();
}

void Trainer::open_report() {
  RunFacts facts = task_.facts(peak_);
  if (work_.saver && rank().rank() == 0) facts.emplace_back("snapshots", work_.saver->describe());
  work_.run.open_report(rank(), std::move(facts), task_.unit);
}

StepResult Trainer::step(double rate) {
  const auto start = Clock::now();
  const double waited = rank().heartbeat->waited_seconds();
  const double limit = spike_limit(progress().losses, config().run.spike_score);
  const bool only_warns = config().run.on_spike == OnSpike::warn;
  profile_.begin_step();
  const StepResult result = step_.run({.step = progress().step,
                                       .consumed = progress().samples,
                                       .update = progress().updates + 1,
                                       .learning_rate = rate,
                                       .most_loss = only_warns ? std::numeric_limits<double>::infinity() : limit,
                                       .loss_scale = progress().loss_scale ? progress().loss_scale->scale : 1,
                                       .saved = !work_.saver->pending() || work_.saver->idle(),
                                       .copied = work_.saver->copy_idle(),
                                       .next = progress().step + 1 < config().run.steps});
  // A single rank waits for no other, but the scheduler may have used its processor within a call.
  const double exposed = rank().size() == 1 ? 0 : rank().heartbeat->waited_seconds() - waited;
  const double taken = seconds_since(start);
  work_.run.meter.add_step(taken - exposed, exposed);
  work_.run.speed.steps.add(taken, exposed, step_.rows());
  work_.run.speed.trained_seconds += taken;
  if (profile_.end_step(exposed)) show_profile();
  account(result, limit);
  if (work_.run.board) work_.run.board->step_time(progress().step, taken, exposed);
  rank().heartbeat->set_step(progress().step);
  rank().heartbeat->enter(Phase::step);
  return result;
}

void Trainer::account(const StepResult& result, double limit) {
  const uint64_t first = progress().samples;
  work_.saver->record_step(progress().step, result);
  work_.run.skips.account(result, step_.part().samples, limit, progress(), scalars());
  work_.run.meter.add_result(result.loss, result.skipped, result.finite);
  if (task_.step_done) task_.step_done(result);
  if (result.skipped) return;
  if (result.loss > limit) {
    log::write_once(log::Level::warning,
                    fmt::format("step {}: loss {:.4f} is a spike above {:.4f}; samples {} to {}", progress().step,
                                result.loss, limit, first, progress().samples - 1));
  }
  add_loss(progress().losses, result.loss);
}

/// Checks that members hold the same weights and read the same data.
void Trainer::check_ranks() {
  data_windows_.hash_next();
  const bool compared = progress().step == 1 || due(config().run.hash_every);
  if (compared) {
    work_.session.wait_for_ranks();
    check_parameters(work_.session.mesh(), scalars(), rank().host, work_.run.state, work_.run.table,
                     work_.session.ops(), progress().step,
                     config().run.on_difference == OnDifference::heal && !work_.run.state.is_sharded());
  }
  if (compared || done()) data_windows_.compare(scalars(), rank().host, progress().step);
}

void Trainer::report(const StepResult& result, double rate) {
  // The next interval begins here: the time of the lines below, such as a wait for a rank with a broken link, is part
  // of it.
  const StepMeter meter = std::exchange(work_.run.meter, {});
  Metrics metrics;
  metrics.step = progress().step;
  metrics.loss = result.loss;
  if (task_.unit == LossUnit::token) metrics.perplexity = std::exp(result.loss);
  metrics.learning_rate = rate;
  metrics.gradient_norm = result.norm;
  metrics.samples = progress().samples;
  metrics.tokens = task_.tokens(progress().samples);
  if (task_.epoch) metrics.epoch = task_.epoch(progress().samples);
  metrics.skipped = progress().skipped;
  if (progress().loss_scale) metrics.loss_scale = progress().loss_scale->scale;
  if (task_.measures) metrics.values = task_.measures(work_);
  const StepCost& cost = task_.cost;
  metrics.flops_per_second = meter.fill(metrics, cost.tokens, cost.samples) * cost.flops;
  metrics.flops_per_device = metrics.flops_per_second / rank().size();
  metrics.mfu = peak_.share(metrics.flops_per_second);
  const DeviceMemory gpu = work_.session.ops().device().memory();  // zeros of the host
  metrics.gpu_memory_bytes = gpu.total - gpu.free;
  metrics.gpu_memory_size = gpu.total;
  if (work_.run.gpu) {
    metrics.gpus = work_.run.gpu->of_all(scalars());
    metrics.gpu = summary_of(metrics.gpus);
  }
  if (rank().size() > 1) {
    for (const uint64_t bits : scalars().gather_values(std::bit_cast<uint64_t>(meter.busy_per_step())))
      metrics.rank_seconds.push_back(std::bit_cast<double>(bits));
    metrics.slowest = slowest_of(metrics.rank_seconds);
  }
  work_.run.reporter->step(metrics);
  straggler_.warn(scalars(), rank().host, metrics.rank_seconds, meter.steps());
  contention_.warn(scalars(), rank().host);
  together(scalars(), [&] { data_guard_.check(); });
}

void Trainer::show_profile() {
  const ExcludedTime excluded(work_.run.meter);
  const ProfileCeilings ceilings{peak_.total() / rank().size(), measure_copy_rate(work_.session.ops(), rank().threads)};
  if (rank().rank() != 0) return;
  log::info("time of {} of rank 0\n{}", count_text(config().log.profile, "step"), profile_.table(ceilings));
  const std::string trace = config().run.dir + "/trace.json";
  try {
    profile_.write_trace(trace, rank().rank());
    log::info("{} lists every call: open it in chrome://tracing or ui.perfetto.dev", trace);
  } catch (const Error& error) {  // training continues if a report cannot be written
    log::warning("{}", error.what());
  }
}

/// Goes back to the newest snapshot's weights and skips the samples since then. False if there is no snapshot yet.
bool Trainer::roll_back() {
  publish();
  finish_copies();  // no host can read the other hosts' disks
  const int64_t step = work_.saver->published_step();
  if (step < 0) return false;
  if (++rolled_back_ > kMostRollBacks) {
    throw CommonError(ErrorKind::numeric,
                      fmt::format("the loss spiked again after rolling back to step {} {} times; lower "
                                  "{} or resume from an earlier snapshot",
                                  step, kMostRollBacks, config().names("optim.learning-rate")));
  }
  work_.run.reporter->finish("rolled-back", progress().step);
  const uint64_t samples = progress().samples;
  const int64_t skipped = progress().skipped;
  together(scalars(), [&] {
    const CheckpointFolder folder = open_checkpoint(work_.saver->newest_folder());
    load_checkpoint(folder, work_.run.table, work_.run.state);
    work_.run.resume(folder.facts.progress);
  });
  log::write_once(log::Level::warning, fmt::format("rolled back to the snapshot of step {}; skipped samples {} to {}",
                                                   step, progress().samples, samples - 1));
  progress().samples = samples;
  progress().skipped = skipped;
  work_.saver->record_roll_back();
  rank().heartbeat->set_step(progress().step);
  open_report();
  return true;
}

bool Trainer::evaluate() {
  if (evaluated_step_ == progress().step) return true;
  const InPhase phase(*rank().heartbeat, Phase::evaluation);
  const ExcludedTime excluded(work_.run.meter);
  if (!task_.evaluate(work_)) return false;
  evaluated_step_ = progress().step;
  return true;
}

void Trainer::test() {
  const InPhase phase(*rank().heartbeat, Phase::evaluation);
  if (task_.test) (void)task_.test(work_);  // after a stop meanwhile the run is at its end, too
}

void Trainer::save() {
  if (!work_.keeps_snapshots)
    return log::info("no snapshot of step {}: {} is on rank 0's host only", progress().step, config().run.dir);
  if (work_.saver->has(progress().step)) return;
  if (work_.saver->in_streak()) return work_.saver->postpone(progress().step);
  publish();  // one save at a time
  const InPhase phase(*rank().heartbeat, Phase::save);
  const ExcludedTime excluded(work_.run.meter);
  work_.session.wait_for_ranks();
  work_.saver->begin(progress());
}

/// Waits for the pending snapshot, also if a local disk refused it and it is now written to the run folder.
void Trainer::publish() {
  while (work_.saver->pending()) publish_written();
}

/// A snapshot that did not fit on local disks is still pending then.
void Trainer::publish_written() {
  if (!work_.saver->pending()) return;
  const InPhase phase(*rank().heartbeat, Phase::save);
  const ExcludedTime excluded(work_.run.meter);
  if (const auto snapshot = work_.saver->publish()) {
    rolled_back_ = 0;
    work_.run.reporter->checkpoint(*snapshot);
  }
}

/// Called when all ranks have copied their part of a snapshot from local disks.
void Trainer::publish_copied() {
  if (!work_.saver->copying()) return;
  const InPhase phase(*rank().heartbeat, Phase::save);
  const ExcludedTime excluded(work_.run.meter);
  if (const auto snapshot = work_.saver->publish_copy()) work_.run.reporter->checkpoint(*snapshot);
}

void Trainer::finish_copies() {
  const InPhase phase(*rank().heartbeat, Phase::save);
  const ExcludedTime excluded(work_.run.meter);
  work_.saver->finish_copies([&](const CheckpointEvent& snapshot) { work_.run.reporter->checkpoint(snapshot); });
}

bool Trainer::advance() {
  const RateSchedule& schedule = work_.run.schedule;
  const double rate =
      learning_rate(schedule, schedule.counts_updates() ? progress().updates : progress().scheduled_steps());
  const StepResult result = step(rate);
  if (result.skipped && result.finite && config().run.on_spike == OnSpike::roll_back && roll_back()) return result.stop;
  check_ranks();
  const Due due = task_.due(progress());
  if (due.report || done()) report(result, rate);
  work_.run.reporter->progress(progress().step, result.loss);
  bool stop = result.stop;
  // The last evaluation comes before the last snapshot, which may be the best one and is written once.
  const bool last = done() && !stop && task_.evaluates_last;
  const bool evaluated = !(due.evaluation || last) || evaluate();
  if (due.evaluation) stop = stop || !evaluated;
  if (result.copied) publish_copied();  // before publish_written(), which begins another copy
  if (result.saved) publish_written();
  if (due.snapshot || work_.saver->has_best() || work_.saver->is_postponed()) save();
  return stop;
}

/// The processor time that coordination between ranks cost this training.
void Trainer::log_processor_time(const CpuTimes& start) {
  if (rank().size() == 1) return;
  std::array<double, 4> values = rank().heartbeat->cpu().times().since(start).values();
  scalars().sum(values);
  log::info("{}", describe(CpuTimes::of(values), rank().size()));
}

void Trainer::end(bool stopped) {
  if (work_.saver->has(progress().step)) work_.saver->require_success();  // it was due, and is the last one
  publish();
  work_.saver->require_success();
  if (!stopped && task_.evaluates_last) evaluate();
  if (!stopped) test();
  if (progress().step > 0 && (stopped || task_.saves_last || work_.saver->in_streak())) save();
  publish();
  finish_copies();
  if (!stopped) work_.saver->finish(progress());
  work_.saver->clear_local();
  work_.run.reporter->finish(stopped ? "stopped" : "done", progress().step);
}

bool Trainer::train() {
  const CpuTimes start = rank().heartbeat->cpu().times();
  if (progress().step == 0 && task_.evaluates_first) evaluate();
  work_.saver->forget_best();  // the starting weights are not the run's best result
  if (progress().step == 0 && task_.saves_first) save();
  if (progress().step > 0 && done())
    log::info("no steps left to train: {} done, {} is {}; raise it to train longer",
              count_text(progress().step, "step"), config().names("run.steps"), config().run.steps);
  work_.run.meter.restart();
  bool stopped = scalars().any(rank().stop_requested());
  while (!done() && !stopped && !(task_.is_finished && task_.is_finished())) stopped = advance();
  if (stopped) {
    const std::string reason = stop_reason_();
    log::info("stop requested{}{}: saving after step {}", reason.empty() ? "" : " by ", reason, progress().step);
    if (progress().step == 0) log::info("stopped before the first step: nothing to save");
  }
  log_processor_time(start);
  end(stopped);
  return !stopped;
}

bool Trainer::evaluate_only() {
  if (evaluate()) test();
  const bool stopped = scalars().any(rank().stop_requested());
  if (stopped) log::info("stopped before the evaluation was complete");
  work_.run.reporter->finish(stopped ? "stopped" : "done", progress().step);
  return !stopped;
}

}  // namespace trireme
