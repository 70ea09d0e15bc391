#include "train/local_resume.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/option_name.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/shared_copies.h"
#include "comm/agreement.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

/// A snapshot on local disks as all ranks see it.
struct Candidate {
  int64_t step = 0;
  std::string hash, name;  ///< hash of the manifest; name of the folder on each host
  size_t shards = 0;
  std::vector<std::set<size_t>> seen;  ///< by rank

  std::set<size_t> anywhere() const {
    std::set<size_t> all;
    for (const auto& own : seen) all.insert(own.begin(), own.end());
    return all;
  }
  bool is_everywhere() const {
    return std::ranges::all_of(seen, [&](const auto& own) { return own.size() == shards; });
  }
  /// The shards that the rank reads or copies: each shard goes to one of the ranks that see it.
  std::vector<size_t> part_of(size_t rank) const {
    std::vector<size_t> part;
    for (size_t shard = 0; shard < shards; ++shard) {
      const auto first = std::ranges::find_if(seen, [&](const auto& own) { return own.contains(shard); });
      const size_t owner = is_everywhere() ? shard % seen.size() : static_cast<size_t>(first - seen.begin());
      if (owner == rank) part.push_back(shard);
    }
    return part;
  }
  /// A rank that has the manifest.
  int witness() const {
    return static_cast<int>(std::ranges::find_if(seen, [](const auto& own) { return !own.empty(); }) - seen.begin());
  }
};

/// "STEP HASH NAME SHARDS n i j k", one line each.
std::string describe(const std::vector<LocalStep>& steps) {
  std::string text;
  for (const LocalStep& step : steps) {
    text += fmt::format("{} {} {} {} {}", step.step, hex64(step.hash), fs::path(step.path).filename().string(),
                        step.manifest.shards.size(), step.shards.size());
    for (const size_t shard : step.shards) text += fmt::format(" {}", shard);
    text += '\n';
  }
  return text;
}

/// Descending; ranks that see the same name and manifest see the same snapshot.
std::vector<Candidate> merge(const std::vector<std::string>& reported) {
  std::map<std::pair<std::string, std::string>, Candidate, std::greater<>> found;
  for (size_t rank = 0; rank < reported.size(); ++rank) {
    std::istringstream lines(reported[rank]);
    Candidate one;
    for (size_t count = 0; lines >> one.step >> one.hash >> one.name >> one.shards >> count;) {
      Candidate& known = found.try_emplace({one.name, one.hash}, one).first->second;
      known.seen.resize(reported.size());
      for (size_t shard = 0; count > 0 && lines >> shard; --count) known.seen[rank].insert(shard);
    }
  }
  std::vector<Candidate> all;
  for (auto& [key, candidate] : found) all.push_back(std::move(candidate));
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::step);
  return all;
}

class BothSides {
 public:
  BothSides(const Config& config, const LocalNote& note, Scalars& scalars)
      : config_(config), note_(note), scalars_(scalars), own_(list_local_steps(note.folder)) {}

  std::optional<ResumePlace> find() {
    candidates_ = merge(scalars_.gather(describe(own_)));
    // Rank 0's view of the run folder decides.
    std::string order;
    together(scalars_, [&] {
      if (scalars_.rank() == 0) order = order_of_trial();
    });
    std::istringstream lines(scalars_.broadcast(order));
    int64_t shared = 0;
    for (std::string side, what, hash; lines >> side >> what >> hash;) {
      if (side == "shared") {
        ++shared;
        if (is_good(what)) return ResumePlace{config_.run.dir + "/" + what, nearby(what, hash)};
      } else if (const auto place = take(candidate(what, hash))) {
        return place;
      }
    }
    require_none(shared);
    return {};
  }

 private:
  const std::string& run_dir() const { return config_.run.dir; }
  size_t rank() const { return static_cast<size_t>(scalars_.rank()); }
  std::string path_of(const Candidate& one) const { return note_.folder + "/" + one.name; }

  const Candidate& candidate(const std::string& name, const std::string& hash) const {
    return *std::ranges::find_if(candidates_,
                                 [&](const Candidate& one) { return one.name == name && one.hash == hash; });
  }

  /// "shared step-00000120 HASH" and "local NAME HASH", newest first; for equal steps the run folder's first.
  std::string order_of_trial() const {
    std::vector<std::pair<int64_t, std::string>> all;
    for (const int64_t step : steps_in_line(run_dir())) {
      const MappedFile manifest(run_dir() + "/" + step_name(step) + "/manifest.json");
      all.emplace_back(step, fmt::format("shared {} {}\n", step_name(step), hex64(xxh3(manifest.bytes()))));
    }
    for (const Candidate& one : candidates_) {
      if (was_abandoned(run_dir(), one.step, std::stoull(one.hash, nullptr, 16))) continue;
      all.emplace_back(one.step, fmt::format("local {} {}\n", one.name, one.hash));
    }
    std::ranges::stable_sort(all, std::greater<>(), &std::pair<int64_t, std::string>::first);
    std::string text;
    for (const auto& [step, line] : all) text += line;
    return text;
  }

  bool is_good(const std::string& name) {
    bool good = false;
    together(scalars_, [&] {
      if (scalars_.rank() != 0) return;
      const std::string folder = run_dir() + "/" + name;
      const std::vector<std::string> faults = verify_checkpoint(folder);
      good = faults.empty();
      if (!good)
        log::warning("checkpoint {} cannot be used: {}{}", folder, faults.front(),
                     faults.size() > 1 ? fmt::format(" (and {} more faults)", faults.size() - 1) : std::string());
    });
    return scalars_.any(good);
  }

  /// The shards of a step of the run folder that this host's disk also has.
  std::string nearby(const std::string& name, const std::string& hash) const {
    for (const LocalStep& own : own_) {
      if (step_name(own.step) == name && hex64(own.hash) == hash) return own.path;
    }
    return {};
  }

  std::optional<ResumePlace> take(const Candidate& one) {
    const size_t missing = one.shards - one.anywhere().size();
    if (missing > 0) {
      log::write_once(log::Level::warning,
                      fmt::format("the snapshot of step {} on the local disks ({}) is incomplete and not used: {} of "
                                  "its {} are on none of this job's hosts",
                                  one.step, path_of(one), missing, count_text(one.shards, "shard")));
      return {};
    }
    const bool direct = one.is_everywhere() && below_option();
    if (!direct && config_.evaluation.only) {
      log::info(
          "the snapshot of step {} is only on the local disks, and an evaluation writes nothing: an older snapshot is "
          "used",
          one.step);
      return {};
    }
    if (!is_sound(one)) return {};
    if (direct) return ResumePlace{path_of(one), {}};
    copy(one);
    return ResumePlace{run_dir() + "/" + step_name(one.step), nearby(step_name(one.step), one.hash)};
  }

  /// Whether checkpoint.local still names this folder: from a folder that the run leaves nothing can be copied later.
  bool below_option() const {
    return fs::path(note_.folder).parent_path() == fs::path(config_.checkpoint.local + "/").parent_path();
  }

  bool is_sound(const Candidate& one) {
    std::vector<std::string> faults;
    for (const LocalStep& own : own_) {
      if (own.path == path_of(one)) faults = verify_local_shards(own, one.part_of(rank()));
    }
    if (!faults.empty())
      log::warning("the snapshot of step {} on the local disks cannot be used: {}", one.step, faults.front());
    return !scalars_.any(!faults.empty());
  }

  void copy(const Candidate& one) {
    const std::string path = path_of(one);
    const int witness = one.witness();
    std::string text;
    together(scalars_, [&] {
      if (scalars_.rank() == witness) text = read_text(path + "/manifest.json");
    });
    text = scalars_.broadcast(text, witness);
    log::info("the snapshot of step {} is complete on the local disks but not in {}: it is copied first", one.step,
              run_dir());
    SharedCopies copies({.run_dir = run_dir(), .folder = note_.folder}, scalars_, nullptr, {});
    LocalSnapshot snapshot{
        .folder = path, .manifest = parse_manifest(text, path + "/manifest.json"), .shards = one.part_of(rank())};
    snapshot.best = config_.checkpoint.best && is_best(snapshot.manifest);
    copies.add(std::move(snapshot), false);
    copies.finish(config_.run.hang_timeout, false, [](const SharedCopies::Published&) {});
  }

  void require_none(int64_t shared) const {
    if (shared > 0)
      throw CommonError(
          ErrorKind::data,
          fmt::format(
              "{} holds {}, but neither these nor any on the local disks can be used; the warnings above say why",
              run_dir(), count_text(shared, "checkpoint")));
    if (note_.step < 0) return;
    throw CommonError(
        ErrorKind::data,
        fmt::format("the snapshots of {} are on local disks, in {} (newest: step {}), but none is "
                    "complete on the hosts of this start: start on the hosts that have them, or start "
                    "from scratch with {}",
                    run_dir(), note_.folder, note_.step, option_name("--checkpoint.resume none --run.overwrite")));
  }

  const Config& config_;
  const LocalNote& note_;
  Scalars& scalars_;
  const std::vector<LocalStep> own_;
  std::vector<Candidate> candidates_;
};

}  // namespace

bool is_best(const Manifest& manifest) {
  const RunCounters& progress = manifest.facts.progress;
  return progress.step > 0 && progress.best_step == progress.step;
}

std::optional<LocalNote> agree_on_local_note(const std::string& run_dir, Scalars& scalars) {
  std::string reported;
  together(scalars, [&] {
    if (scalars.rank() != 0) return;
    if (const auto note = read_local_note(run_dir))
      reported = fmt::format("{} {} {}", note->step, note->copied, note->folder);
  });
  std::istringstream line(scalars.broadcast(reported));
  LocalNote note;
  if (!(line >> note.step >> note.copied >> std::ws) || !std::getline(line, note.folder)) return {};
  return note;
}

std::optional<ResumePlace> find_newest_complete(const Config& config, const LocalNote& note, Scalars& scalars) {
  return BothSides(config, note, scalars).find();
}

std::string open_local_folder(const Config& config, Scalars& scalars) {
  const std::string& dir = config.checkpoint.local;
  const std::optional<LocalNote> note = agree_on_local_note(config.run.dir, scalars);
  std::string folder;
  if (!dir.empty() && note && fs::path(note->folder).parent_path() == fs::path(dir + "/").parent_path())
    folder = note->folder;
  else if (!dir.empty())
    folder = scalars.broadcast(scalars.rank() == 0 ? new_local_folder(dir, config.run.dir) : std::string());
  if (note && note->folder != folder) remove_local_folder(note->folder);
  together(scalars, [&] {
    if (!folder.empty()) {
      std::error_code error;
      fs::create_directories(folder, error);
      require(!error, ErrorKind::io, "cannot create {} for checkpoint.local: {}", folder, error.message());
      require(access(folder.c_str(), W_OK | X_OK) == 0, ErrorKind::io, "cannot write to {} of checkpoint.local: {}",
              folder, std::strerror(errno));
    }
    if (scalars.rank() != 0) return;
    if (folder.empty() && note) forget_local_note(config.run.dir);
    if (!folder.empty() && (!note || note->folder != folder)) write_local_note(config.run.dir, {.folder = folder});
  });
  return folder;
}

}  // namespace trireme
