#include "checkpoint/snapshot/shared_copies.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/meter.h"
#include "base/text.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/publication.h"
#include "comm/agreement.h"

namespace trireme {
namespace {

constexpr double kLookSeconds = 0.5;
constexpr double kDiskPatience = 12;  // as a save's (train/saver.h)

}  // namespace

SharedCopies::SharedCopies(Options options, Scalars& scalars, Heartbeat* heartbeat, std::function<void()> check_owner)
    : options_(std::move(options)),
      scalars_(scalars),
      heartbeat_(heartbeat),
      check_owner_(check_owner ? std::move(check_owner) : [] {}) {
  std::random_device device;
  token_ = scalars_.broadcast(scalars_.rank() == 0 ? fmt::format("{:08x}", device()) : std::string());
}

SharedCopies::~SharedCopies() {
  const bool dropped = copy_ && scalars_.rank() == 0;
  copy_.reset();
  if (janitor_.joinable()) janitor_.join();
  std::error_code ignored;
  if (dropped)
    std::filesystem::remove_all(options_.run_dir + "/" + saving_name(waiting_.front().step(), token_), ignored);
}

void SharedCopies::add(LocalSnapshot snapshot, bool may_drop) {
  newest_local_ = std::max(newest_local_, snapshot.step());
  waiting_.push_back(std::move(snapshot));
  std::vector<std::string> old;
  if (!copied_folder_.empty()) old.push_back(std::exchange(copied_folder_, {}));
  in_background(std::move(old));
  if (!copy_) start(may_drop);
}

void SharedCopies::add_copied(std::string folder, int64_t step) {
  copied_folder_ = std::move(folder);
  newest_local_ = newest_shared_ = step;
}

void SharedCopies::note_published(int64_t step) { newest_shared_ = std::max(newest_shared_, step); }

/// Removes old folders; rank 0 records the state. In the background, because disks may be slow.
void SharedCopies::in_background(std::vector<std::string> old) {
  if (janitor_.joinable()) janitor_.join();
  const LocalNote note{options_.folder, newest_local_, newest_shared_};
  const bool writes = scalars_.rank() == 0;
  janitor_ = std::thread([this, note, writes, old = std::move(old), starter = log::identity()] {
    const log::ThreadIdentity identity(starter);
    for (const std::string& path : old) remove_local_step(path);
    if (!writes) return;
    try {
      check_owner_();
      write_local_note(options_.run_dir, note);
    } catch (const Error& e) {
      log::warning("{}", e.what());
    }
  });
}

/// Every rank gets the same result.
void SharedCopies::drop_what_goes_at_once() {
  if (options_.keep <= 0) return;
  const auto best = std::ranges::find_if(waiting_.rbegin(), waiting_.rend(), &LocalSnapshot::best);
  const int64_t newest_best = best == waiting_.rend() ? -1 : best->step();
  std::vector<std::string> old;
  for (size_t i = 0; i + static_cast<size_t>(options_.keep) < waiting_.size();) {
    if (waiting_[i].step() == newest_best) {
      ++i;
      continue;
    }
    log::info("skipping the copy of the snapshot of step {} to {}: newer ones are waiting, and {} is {}",
              waiting_[i].step(), options_.run_dir, options_.keep_name, options_.keep);
    old.push_back(waiting_[i].folder);
    waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(i));
  }
  if (!old.empty()) in_background(std::move(old));
}

void SharedCopies::start(bool may_drop) {
  if (may_drop) drop_what_goes_at_once();
  if (waiting_.empty()) return;
  const LocalSnapshot& next = waiting_.front();
  start_ = Clock::now();
  copy_ = std::make_unique<ShardCopy>(ShardCopy::Order{.from = next.folder,
                                                       .to = options_.run_dir + "/" + saving_name(next.step(), token_),
                                                       .shards = next.shards,
                                                       .bytes_per_second = options_.bytes_per_second},
                                      next.manifest, heartbeat_);
}

SharedCopies::Published SharedCopies::publish(bool may_drop) {
  const LocalSnapshot& snapshot = waiting_.front();
  const int64_t step = snapshot.step();
  const std::string failure = copy_->failure();
  copy_.reset();
  try {
    agree_on_success(scalars_, failure);
    together(scalars_, [&] {
      if (scalars_.rank() == 0)
        publish_step({.run_dir = options_.run_dir,
                      .token = token_,
                      .manifest = snapshot.manifest,
                      .latest = step >= newest_shared_,
                      .best = snapshot.best,
                      .check_owner = check_owner_});
    });
  } catch (const Error&) {
    std::error_code ignored;
    if (scalars_.rank() == 0) std::filesystem::remove_all(options_.run_dir + "/" + saving_name(step, token_), ignored);
    throw;
  }
  newest_shared_ = std::max(newest_shared_, step);
  Published published{step, options_.run_dir + "/" + step_name(step), seconds_since(start_), snapshot.best};
  std::vector<std::string> old;
  // Keeps the newest one: a start reads from the host's own disk if possible.
  if (!copied_folder_.empty()) old.push_back(std::exchange(copied_folder_, {}));
  if (waiting_.size() > 1)
    old.push_back(snapshot.folder);
  else
    copied_folder_ = snapshot.folder;
  waiting_.pop_front();
  in_background(std::move(old));
  start(may_drop);
  return published;
}

/// Until every rank has done its part.
void SharedCopies::wait_for_copy(double patience) {
  const int64_t step = waiting_.front().step();
  copy_->lift_limit();
  int64_t before = -1;
  auto moved = Clock::now();
  bool told = false;
  std::optional<Meter> meter;
  for (bool ready = false; !ready;) {
    copy_->wait(before < 0 ? 0 : kLookSeconds);
    std::array<int64_t, 3> sums = {copy_->idle() ? 0 : 1, static_cast<int64_t>(copy_->copied()),
                                   static_cast<int64_t>(copy_->bytes())};
    scalars_.sum(sums);
    const auto [busy, copied, all] = sums;
    ready = busy == 0;
    if (scalars_.rank() == 0) {
      if (!meter) {
        meter.emplace(fmt::format("copying the snapshot of step {} to", step), static_cast<uint64_t>(all - copied));
        meter->set_file(options_.run_dir);
        if (!ready)
          log::info("copying the snapshot of step {} to {}: {} of {} are already there", step, options_.run_dir,
                    human_bytes(static_cast<uint64_t>(copied)), human_bytes(static_cast<uint64_t>(all)));
      } else {
        meter->add(static_cast<uint64_t>(copied - before));
      }
    }
    if (copied != before) moved = Clock::now(), told = false;
    before = copied;
    const double still = scalars_.max(seconds_since(moved));
    if (still > patience && !ready && !std::exchange(told, true))
      log::write_once(log::Level::warning, fmt::format("the disk of {} has accepted no data of the snapshot of step {} "
                                                       "for {:.1f} s; the snapshot is complete on the local disks",
                                                       options_.run_dir, step, still));
    if (ready || still < kDiskPatience * patience) continue;
    log::write_once(log::Level::error,
                    fmt::format("the disk of {} has accepted no data of the snapshot of step {} for {:.0f} s; exiting "
                                "with code {}; the same command resumes from the local disks",
                                options_.run_dir, step, still, exit_code(ErrorKind::io)));
    std::_Exit(exit_code(ErrorKind::io));  // the thread that writes cannot be ended
  }
}

void SharedCopies::finish(double patience, bool may_drop, const std::function<void(const Published&)>& told) {
  while (pending()) {
    if (!copy_) start(may_drop);
    wait_for_copy(patience);
    told(publish(may_drop));
  }
}

void SharedCopies::clear() {
  if (janitor_.joinable()) janitor_.join();
  remove_local_folder(options_.folder);
  if (scalars_.rank() == 0) forget_local_note(options_.run_dir);
}

}  // namespace trireme
