#include "train/saver.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "comm/heartbeat.h"
#include "config/document.h"
#include "train/local_resume.h"

namespace trireme {

namespace fs = std::filesystem;
namespace {

constexpr double kFirstPause = 1, kLongestPause = 10;  // seconds between attempts

}  // namespace

Saver::Saver(const Run& run, Session& session, std::function<void()> check_claim)
    : plan_(run.plan),
      data_files_(run.data_files),
      check_claim_(std::move(check_claim)),
      scalars_(session.mesh().world()),
      heartbeat_(session.rank().heartbeat),
      writer_(run.config().run.dir, run.table, run.state, session.mesh().world(), heartbeat_, check_claim_,
              run.config().names("--run.dir")) {
  space_ = writer_.require_space(facts_of({}));
  open_fallback();
  if (plan_.resume) start_from(run.progress.step);
  open_local(session);
}

/// Finds out now, not when it is needed, that nothing can be written there.
void Saver::open_fallback() {
  const RunOptions& run = plan_.config().run;
  if (run.fallback.empty()) return;
  together(scalars_, [&] {
    if (scalars_.rank() != 0) return;
    prepare_run_folder(run.fallback);
    struct stat own {
    }, other{};
    if (stat(run.dir.c_str(), &own) == 0 && stat(run.fallback.c_str(), &other) == 0 && own.st_dev == other.st_dev)
      log::warning("{} {} is on the same file system as the run folder {}, so both are full at the same time",
                   plan_.config().names("run.fallback"), run.fallback, run.dir);
  });
}

/// Keeps the snapshot that the run resumes from, and copies it if the run folder does not have it.
void Saver::open_local(const Session& session) {
  const Config& config = plan_.config();
  const std::string folder = open_local_folder(config, scalars_);
  if (folder.empty()) return;
  const double rate = config.checkpoint.copy_mb_per_second * 1e6 / session.rank().local_size();
  copies_.emplace(SharedCopies::Options{.run_dir = config.run.dir,
                                        .folder = folder,
                                        .bytes_per_second = rate,
                                        .keep = config.checkpoint.keep,
                                        .keep_name = config.names("checkpoint.keep")},
                  scalars_, session.rank().heartbeat, check_claim_);
  const auto here = [&](const std::string& path) { return fs::path(path).parent_path() == fs::path(folder); };
  const bool direct = plan_.resume && here(plan_.resume->path);
  const std::string kept = !plan_.resume ? std::string() : direct ? plan_.resume->path : plan_.resume->nearby;
  together(scalars_, [&] {
    clear_local_folder(folder, here(kept) ? fs::path(kept).filename().string() : std::string());
    if (!direct) return;
    LocalSnapshot snapshot{.folder = kept, .manifest = read_manifest(kept), .shards = {}};
    for (size_t i = static_cast<size_t>(scalars_.rank()); i < snapshot.manifest.shards.size();
         i += static_cast<size_t>(scalars_.size()))
      snapshot.shards.push_back(i);
    snapshot.best = config.checkpoint.best && is_best(snapshot.manifest);
    copies_->add(std::move(snapshot), false);
  });
  if (direct) shared_ = -1;
  if (!direct && here(kept)) copies_->add_copied(kept, published_);
}

CheckpointFacts Saver::facts_of(const RunCounters& progress) const {
  return {.spec = plan_.part.spec,
          .progress = progress,
          .config_json = dump_json(to_json(plan_.config())),
          .tokenizer_json = plan_.tokenizer_json,
          .data_files = data_files_,
          .parameter_hash = {},
          .generation = plan_.generation};
}

std::string Saver::describe() const {
  const auto megabytes = [](uint64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  const CheckpointOptions& options = plan_.config().checkpoint;
  return fmt::format("{:.1f} MB each: all weights{}, optimizer state; the disk of {} takes {} more; {} kept{}",
                     megabytes(space_.bytes), plan_.part.spec.adapters.empty() ? "" : " (not the adapters alone)",
                     plan_.config().run.dir, space_.free / std::max<uint64_t>(space_.bytes, 1),
                     options.keep == 0   ? "all are"
                     : options.keep == 1 ? "the newest is"
                                         : fmt::format("the newest {} are", options.keep),
                     options.keep != 0 && options.best ? ", beside the best" : "");
}

void Saver::start_from(int64_t step) {
  begun_ = published_ = shared_ = started_ = step;
  unpruned_ = true;
  const bool named = plan_.config().checkpoint.resume != "auto";
  together(scalars_, [&] {
    if (named && scalars_.rank() == 0) abandon_later_steps(plan_.config().run.dir, step);
  });
}

void Saver::record_step(int64_t step, const StepResult& result) {
  watch_.record_step(step, result);
  if (!unpruned_ || watch_.good_step() < shared_) return;
  writer_.prune(plan_.config().checkpoint.keep);
  unpruned_ = false;
}

void Saver::postpone(int64_t step) {
  if (std::exchange(postponed_, true)) return;
  log::info(
      "no snapshot of step {} during a streak of skipped steps: it is saved after the next good step; the newest is {}",
      step, newest());
}

void Saver::begin(const RunCounters& progress) {
  together(scalars_, check_claim_);
  writer_.begin(facts_of(progress), copies_ ? copies_->folder() : std::string(), best_);
  postponed_ = false;
  saving_best_ = best_;
  best_ = false;
  begun_ = progress.step;
}

std::optional<CheckpointEvent> Saver::publish() {
  const CheckpointOptions& options = plan_.config().checkpoint;
  wait_for_disk();
  if (writer_.is_local()) return publish_local();
  try {
    unpruned_ = watch_.good_step() < begun_;
    const std::string folder = written_folder();
    published_ = shared_ = begun_;
    started_ = -1;
    if (copies_) copies_->note_published(begun_);
    if (saving_best_) link_best(folder);
    return CheckpointEvent{.step = begun_,
                           .path = folder,
                           .seconds = writer_.seconds(),
                           .best = saving_best_,
                           .parameters = writer_.parameter_hash()};
  } catch (const CommonError& e) {
    together(scalars_, check_claim_);  // another job that took over the folder treats our files as leftovers
    if (must_succeed_ || options.on_error == OnError::stop) {
      if (e.kind() == ErrorKind::io) keep_weights(e);
      throw;
    }
    log::write_once(
        log::Level::warning,
        fmt::format("the snapshot of step {} is lost, training continues (checkpoint.on-error is continue): {}", begun_,
                    e.what()));
    begun_ = published_;
    return {};
  }
}

/// Waits for the snapshot in the run folder; one that must succeed is tried again. All ranks fail alike, so all of them
/// make the same attempts.
std::string Saver::written_folder() {
  const Config& config = plan_.config();
  double tried = 0;
  for (double pause = kFirstPause;; tried += pause, pause = std::min(2 * pause, kLongestPause)) {
    try {
      return writer_.publish(unpruned_ ? 0 : config.checkpoint.keep).value();
    } catch (const CommonError& e) {
      if (!must_succeed_ || e.kind() != ErrorKind::io || tried >= config.checkpoint.retry) throw;
      together(scalars_, check_claim_);
      pause = std::min(pause, config.checkpoint.retry - tried);
      log::write_once(log::Level::warning,
                      fmt::format("cannot write the last snapshot, of step {}: {}; trying again in {:g} s and until "
                                  "{:g} s have passed ({}); make room meanwhile",
                                  begun_, e.what(), pause, config.checkpoint.retry, config.names("checkpoint.retry")));
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(pause));
    writer_.retry(config.run.dir);
    wait_for_disk();
  }
}

/// The run ends with an error whatever happens here, which says where its weights are.
void Saver::keep_weights(const CommonError& failure) {
  const RunOptions& run = plan_.config().run;
  if (run.fallback.empty()) return;
  const std::string name = fs::absolute(run.dir).lexically_normal().filename().string();
  std::string folder;
  try {
    writer_.retry(run.fallback + "/" + name + "-" + writer_.token());
    wait_for_disk();
    folder = writer_.publish(0).value();
  } catch (const CommonError& e) {
    throw CommonError(e.kind(), fmt::format("{}; and {} did not take the snapshot of step {} either: {}",
                                            failure.what(), plan_.config().names("run.fallback"), begun_, e.what()));
  }
  throw CommonError(
      failure.kind(),
      fmt::format("{}; the snapshot of step {} is in {}: make room, then move it into {} or resume with "
                  "{} {}",
                  failure.what(), begun_, folder, run.dir, plan_.config().names("--checkpoint.resume"), folder));
}

std::optional<CheckpointEvent> Saver::publish_local() {
  auto snapshot = writer_.publish_local();
  if (!snapshot) return {};
  snapshot->best = saving_best_;
  published_ = begun_;
  const std::string folder = snapshot->folder;
  copies_->add(std::move(*snapshot), newest_is_good());
  return CheckpointEvent{.step = begun_,
                         .path = folder,
                         .seconds = writer_.seconds(),
                         .best = saving_best_,
                         .parameters = writer_.parameter_hash(),
                         .place = CheckpointEvent::Place::local_disks};
}

std::optional<CheckpointEvent> Saver::publish_copy() {
  try {
    return account_copy(copies_->publish(newest_is_good()));
  } catch (const CommonError& e) {
    together(scalars_, check_claim_);
    if (must_succeed_ || plan_.config().checkpoint.on_error == OnError::stop) throw;
    log::write_once(log::Level::warning,
                    fmt::format("a snapshot could not be copied to {}, training continues (checkpoint.on-error is "
                                "continue): it stays on the local disks and is tried again with the next snapshot: {}",
                                plan_.config().run.dir, e.what()));
    return {};
  }
}

CheckpointEvent Saver::account_copy(const SharedCopies::Published& copy) {
  shared_ = std::max(shared_, copy.step);
  started_ = -1;
  if (copy.best) link_best(copy.path);
  unpruned_ = watch_.good_step() < shared_;
  if (!unpruned_) writer_.prune(plan_.config().checkpoint.keep);
  return {.step = copy.step,
          .path = copy.path,
          .seconds = copy.seconds,
          .best = copy.best,
          .place = CheckpointEvent::Place::copied};
}

void Saver::finish_copies(const std::function<void(const CheckpointEvent&)>& published) {
  if (!copies_) return;
  try {
    copies_->finish(plan_.config().run.hang_timeout, !in_streak(),
                    [&](const SharedCopies::Published& copy) { published(account_copy(copy)); });
  } catch (const CommonError& e) {
    throw CommonError(
        e.kind(),
        fmt::format("{}; the snapshot of step {} is complete on the local disks; run the same command to copy it",
                    e.what(), published_));
  }
}

void Saver::clear_local() {
  if (copies_ && !copies_->pending()) copies_->clear();
}

void Saver::wait_for_disk() const {
  const double patience = plan_.config().run.hang_timeout;
  const std::string& run_dir = writer_.is_local() ? copies_->folder() : plan_.config().run.dir;
  int64_t done = -1;
  bool reported = false;
  std::optional<Waiting> others;  // it is they whose disk does not write
  for (auto moved = Clock::now(); !writer_.wait(std::min(patience, 1.0));) {
    if (writer_.waits_for_ranks()) {
      if (!others) others.emplace(heartbeat_, "the other ranks' parts of a snapshot", 0);
      moved = Clock::now();
      continue;
    }
    others.reset();
    if (writer_.slices_done() != done) {
      done = writer_.slices_done();
      moved = Clock::now();
      reported = false;
    }
    const double still = seconds_since(moved);
    if (still > patience && !std::exchange(reported, true))
      log::warning("the disk of {} has accepted no data of the snapshot of step {} for {:.1f} s; training waits for it",
                   run_dir, begun_, still);
    if (scalars_.size() > 1 || still < kDiskPatience * patience) continue;
    log::error(
        "the disk of {} has accepted no data of the snapshot of step {} for {:.0f} s; exiting with code {}; start "
        "again to resume from the last checkpoint",
        run_dir, begun_, still, exit_code(ErrorKind::io));
    std::_Exit(exit_code(ErrorKind::io));  // the writing thread cannot be stopped
  }
}

std::string Saver::newest_folder() const {
  if (shared_ < 0) return {};
  if (shared_ == started_ && plan_.resume) return plan_.resume->path;
  return plan_.config().run.dir + "/" + step_name(shared_);
}

std::string Saver::newest() const {
  if (published_ > shared_) return fmt::format("that of step {} on the local disks", published_);
  return published_ < 0 ? "none" : newest_folder();
}

void Saver::finish(const RunCounters& progress) {
  const OptionNames& names = plan_.config().names;
  const std::string advice = fmt::format("lower {}, or resume from an earlier snapshot with {}",
                                         names("optim.learning-rate"), names("--checkpoint.resume"));
  if (watch_.in_streak() && published_ == progress.step)
    throw CommonError(ErrorKind::numeric,
                      fmt::format("the weights of {} give no finite validation loss; {}", newest(), advice));
  if (watch_.in_streak())
    throw CommonError(ErrorKind::numeric, fmt::format("the run ends at step {} during a streak of {} skipped steps, so "
                                                      "its weights were not saved; the newest snapshot is {}; {}",
                                                      progress.step, progress.consecutive_skips, newest(), advice));
  if (std::exchange(unpruned_, false)) writer_.prune(plan_.config().checkpoint.keep);
  if (scalars_.rank() == 0) log_best(progress);
}

void Saver::log_best(const RunCounters& progress) const {
  const CheckpointOptions& options = plan_.config().checkpoint;
  const std::string& run_dir = plan_.config().run.dir;
  if (const auto best = read_pointer(run_dir, "best")) {
    if (!options.best_link.empty() && !fs::exists(fs::symlink_status(options.best_link)))
      link_best(run_dir + "/" + step_name(*best));
    if (std::isfinite(progress.best_loss))
      log::info(
          "best snapshot: {0}/{1}, validation loss {2:.4f}; `trireme export --model {0}/{1} --output FOLDER` writes it "
          "as "
          "a Hugging Face folder",
          run_dir, step_name(*best), progress.best_loss);
    return;
  }
  if (!options.best && options.best_link.empty()) return;
  const std::string link = options.best_link.empty() ? "" : fmt::format(", so {} was not made", options.best_link);
  const std::string why =
      !options.best                            ? "checkpoint.best is false"
      : validates_ == Validates::on_other_data ? "there is no validation data"
      : validates_ == Validates::not_yet && !std::isfinite(progress.best_loss)
          ? "nothing was evaluated: there is no validation data, or no evaluation was due"
      : !std::isfinite(progress.best_loss)
          ? "no evaluation gave a finite loss"
          : fmt::format("no evaluation was better than the validation loss {:.4f} {}", progress.best_loss,
                        progress.best_step == 0
                            ? "from before the first step"
                            : fmt::format("of step {}, of which this folder has no snapshot", progress.best_step));
  log::info("there is no best snapshot{}: {}; the newest is {}", link, why, newest());
}

void Saver::link_best(const std::string& folder) const {
  const std::string& link = plan_.config().checkpoint.best_link;
  if (link.empty() || scalars_.rank() != 0) return;
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(link, error)) {
    log::warning("{} exists and is not a link, so it was not changed; the best snapshot is {}", link, folder);
    return;
  }
  // Relative, so that it stays right where the run is moved together with it.
  const fs::path from = fs::weakly_canonical(fs::absolute(link).parent_path(), error);
  const fs::path to = fs::canonical(folder, error);
  const std::string temporary = link + temporary_suffix();
  if (!error) fs::create_directory_symlink(to.lexically_relative(from), temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (error) log::warning("cannot make the link {} to the best snapshot {}: {}", link, folder, error.message());
}

void WeightsWatch::record_step(int64_t step, const StepResult& result) {
  if (result.overflow) return;
  last_ = !result.finite ? Last::not_finite : result.skipped ? Last::spike : Last::good;
  if (last_ == Last::good) good_step_ = step;
}

void WeightsWatch::record_evaluation(double loss) {
  if (!std::isfinite(loss)) {
    last_ = Last::not_finite;
  } else if (last_ == Last::spike) {
    last_ = Last::good;
  }
}

}  // namespace trireme
