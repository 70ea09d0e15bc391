#include "train/saver.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "comm/agreement.h"
#include "config/document.h"

namespace trireme {
namespace fs = std::filesystem;

Saver::Saver(const Run& run, Session& session)
    : plan_(run.plan),
      claim_(*run.claim),
      scalars_(session.mesh().world()),
      writer_(run.config().run.dir, run.table, run.state, session.mesh().world(), session.rank().progress,
              [this] { claim_.check(); }) {
  if (plan_.resume) begun_ = published_ = run.progress.step;
}

void Saver::begin(const RunProgress& progress) {
  together(scalars_, [&] { claim_.check(); });
  start_ = Clock::now();
  writer_.begin({.spec = plan_.spec,
                 .progress = progress,
                 .config_json = to_json(plan_.config()).dump(),
                 .tokenizer_json = plan_.tokenizer_json,
                 .data_files = plan_.data_files});
  saving_best_ = best_;
  best_ = false;
  begun_ = progress.step;
}

std::optional<CheckpointEvent> Saver::publish() {
  const CheckpointOptions& options = plan_.config().checkpoint;
  wait_for_disk();
  try {
    const std::string folder = writer_.publish(options.keep, saving_best_).value();
    published_ = begun_;
    if (saving_best_) link_best(folder);
    return CheckpointEvent{.step = begun_, .path = folder, .seconds = seconds_since(start_), .best = saving_best_};
  } catch (const CommonError& e) {
    together(scalars_, [&] { claim_.check(); });  // to who took the folder over what we wrote is a leftover
    if (insists_ || options.on_error == "stop") throw;
    log::write_once(
        log::Level::warning,
        fmt::format("the snapshot of step {} is lost, training goes on (checkpoint.on-error is continue): {}", begun_,
                    e.what()));
    begun_ = published_;
    return {};
  }
}

void Saver::wait_for_disk() const {
  const double patience = plan_.config().run.hang_timeout;
  const std::string& run_dir = plan_.config().run.dir;
  int64_t done = -1;
  bool told = false;
  for (auto moved = Clock::now(); !writer_.wait(std::min(patience, 1.0));) {
    if (writer_.slices_done() != done) {
      done = writer_.slices_done();
      moved = Clock::now();
      told = false;
    }
    const double still = seconds_since(moved);
    if (still > patience && !std::exchange(told, true))
      log::warning("the disk of {} has taken nothing of the snapshot of step {} for {:.1f} s; training waits for it",
                   run_dir, begun_, still);
    if (scalars_.size() > 1 || still < kDiskPatience * patience) continue;
    log::error(
        "the disk of {} has taken nothing of the snapshot of step {} for {:.0f} s; leaving with code {}, start "
        "again to go on from the last checkpoint",
        run_dir, begun_, still, exit_code(ErrorKind::io));
    std::_Exit(exit_code(ErrorKind::io));  // the thread that writes cannot be ended
  }
}

void Saver::link_best(const std::string& folder) const {
  const std::string& link = plan_.config().checkpoint.best_link;
  if (link.empty() || scalars_.rank() != 0) return;
  std::error_code error;
  if (fs::exists(fs::symlink_status(link, error)) && !fs::is_symlink(link, error)) {
    log::warning("{} exists and is not a link, so it was left alone; the best snapshot is {}", link, folder);
    return;
  }
  const std::string temporary = link + ".tmp";
  fs::remove(temporary, error);
  fs::create_directory_symlink(fs::absolute(folder), temporary, error);
  if (!error) fs::rename(temporary, link, error);
  if (error) log::warning("cannot make the link {} to the best snapshot {}: {}", link, folder, error.message());
}

}  // namespace trireme
