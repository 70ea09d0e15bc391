#include "train/local_resume.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
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

/// What a rank tells the others of its host's snapshots.
std::string record_of(const std::vector<LocalStep>& steps) {
  Json all = Json::array();
  for (const LocalStep& step : steps)
    all.push_back({{"step", step.step},
                   {"hash", hex64(step.hash)},
                   {"name", fs::path(step.path).filename().string()},
                   {"shards", step.manifest.shards.size()},
                   {"seen", step.shards}});
  return dump_json(all);
}

/// Descending; ranks that see the same name and manifest see the same snapshot.
std::vector<Candidate> merge(const std::vector<std::string>& records) {
  std::map<std::pair<std::string, std::string>, Candidate, std::greater<>> found;
  for (size_t rank = 0; rank < records.size(); ++rank) {
    for (const Json& step : parse_json(records[rank], fmt::format("the local snapshots of rank {}", rank))) {
      const auto name = step.at("name").get<std::string>(), hash = step.at("hash").get<std::string>();
      Candidate& known = found[{name, hash}];
      known.step = step.at("step").get<int64_t>();
      known.name = name;
      known.hash = hash;
      known.shards = step.at("shards").get<size_t>();
      known.seen.resize(records.size());
      for (const Json& shard : step.at("seen")) known.seen[rank].insert(shard.get<size_t>());
    }
  }
  std::vector<Candidate> all;
  for (auto& [key, candidate] : found) all.push_back(std::move(candidate));
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::step);
  return all;
}

/// A snapshot that may be resumed: in the run folder, or on the local disks.
struct Trial {
  int64_t step = 0;
  bool is_shared = false;
  std::string name, hash;
};

class BothSides {
 public:
  BothSides(const Config& config, const LocalNote& note, Scalars& scalars)
      : config_(config), note_(note), scalars_(scalars), own_(list_local_steps(note.folder)) {}

  std::optional<ResumePlace> find() {
    candidates_ = merge(scalars_.gather(record_of(own_)));
    int64_t shared = 0;
    for (const Trial& trial : agree_on_trials()) {
      if (trial.is_shared) {
        ++shared;
        if (is_good(trial.name)) return ResumePlace{config_.run.dir + "/" + trial.name, nearby(trial.name, trial.hash)};
      } else if (const auto place = take(candidate(trial.name, trial.hash))) {
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

  /// Newest first; for equal steps the run folder's first.
  std::vector<Trial> order_of_trial() const {
    std::vector<Trial> all;
    for (const int64_t step : steps_in_line(run_dir())) {
      const MappedFile manifest(run_dir() + "/" + step_name(step) + "/manifest.json");
      all.push_back({step, true, step_name(step), hex64(xxh3(manifest.bytes()))});
    }
    for (const Candidate& one : candidates_) {
      if (!was_abandoned(run_dir(), one.step, std::stoull(one.hash, nullptr, 16)))
        all.push_back({one.step, false, one.name, one.hash});
    }
    std::ranges::stable_sort(all, std::greater<>(), &Trial::step);
    return all;
  }

  /// Rank 0's view of the run folder decides.
  std::vector<Trial> agree_on_trials() {
    Json record = Json::array();
    together(scalars_, [&] {
      if (scalars_.rank() != 0) return;
      for (const Trial& one : order_of_trial()) record.push_back({one.step, one.is_shared, one.name, one.hash});
    });
    std::vector<Trial> all;
    for (const Json& one : parse_json(scalars_.broadcast(dump_json(record)), "the snapshots that rank 0 sees"))
      all.push_back({one.at(0).get<int64_t>(), one.at(1).get<bool>(), one.at(2).get<std::string>(),
                     one.at(3).get<std::string>()});
    return all;
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
                    run_dir(), note_.folder, note_.step, config_.names("--checkpoint.resume none --run.overwrite")));
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
  Json record;
  together(scalars, [&] {
    if (scalars.rank() != 0) return;
    if (const auto note = read_local_note(run_dir)) record = {note->step, note->copied, note->folder};
  });
  record = parse_json(scalars.broadcast(dump_json(record)), "the note of rank 0");
  if (record.is_null()) return {};
  LocalNote note;
  note.step = record.at(0).get<int64_t>();
  note.copied = record.at(1).get<int64_t>();
  note.folder = record.at(2).get<std::string>();
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
