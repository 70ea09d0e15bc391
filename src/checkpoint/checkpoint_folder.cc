#include "checkpoint/checkpoint_folder.h"

#include <fmt/ranges.h>

#include <filesystem>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/run_pointer.h"
#include "checkpoint/neox/checkpoint.h"
#include "checkpoint/neox/files.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/local_disk.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

CheckpointFolder open_step(const std::string& folder) { return {.path = folder, .facts = open_snapshot(folder)}; }

CheckpointFolder open_neox(const std::string& path) {
  const NeoxCheckpoint checkpoint(path);
  return {.path = checkpoint.path(),
          .facts = checkpoint.facts(),
          .origin = checkpoint.has_optimizer() ? CheckpointOrigin::neox : CheckpointOrigin::neox_weights,
          .notes = checkpoint.notes()};
}

uint64_t load_parts(const CheckpointFolder& folder, const ParameterTable& table, TrainingState& state, bool states) {
  if (folder.origin != CheckpointOrigin::trireme) return NeoxCheckpoint(folder.path).load(table, state, states);
  return load_snapshot(folder.path, folder.nearby, table, state, states);
}

/// Suggests a name for a missing step, as the end of a sentence.
std::string steps_beside(const std::string& path) {
  const fs::path step = fs::path(path + "/.").lexically_normal().parent_path();
  const std::string name = step.filename().string(),
                    folder = step.has_parent_path() ? step.parent_path().string() : ".";
  std::vector<std::string> there;
  std::error_code unreadable;
  if (!fs::is_directory(folder, unreadable)) return {};
  if (parse_step_name(name) || name.starts_with("global_step")) {
    for (const int64_t other : list_steps(folder)) there.push_back(step_name(other));
    for (const std::string& other : list_neox_steps(folder)) there.push_back(fs::path(other).filename().string());
  }
  return there.empty() ? std::string() : fmt::format("; {} holds {}", folder, fmt::join(there, ", "));
}

}  // namespace

CheckpointFolder open_checkpoint(const std::string& given, const OptionNames& names) {
  const std::string path = follow_run_pointer(given);
  require(fs::is_directory(path), ErrorKind::io, "no checkpoint at {}: the folder does not exist{}", path,
          steps_beside(path));
  if (fs::exists(path + "/manifest.json")) return open_step(path);
  if (const auto step = find_neox_step(path)) {
    if (*step != path && !fs::exists(path + "/latest"))
      log::info("{} has no `latest`; using its largest step, {}", path, fs::path(*step).filename().string());
    return open_neox(*step);
  }
  const auto step = newest_step(path, names);
  const auto note = step ? std::nullopt : read_local_note(path);
  require(step.has_value(), ErrorKind::io,
          "{} has no checkpoint: neither a manifest.json nor a step-* folder with one{}", path,
          note ? "; the local disks of the hosts have some, in " + note->folder : std::string());
  return open_step(path + "/" + step_name(*step));
}

std::optional<CheckpointFolder> find_resumable(const std::string& run_dir, const OptionNames& names) {
  if (!fs::exists(run_dir) || !newest_step(run_dir, names)) return {};
  const std::vector<int64_t> steps = steps_in_line(run_dir);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const std::string folder = run_dir + "/" + step_name(*step);
    const std::vector<std::string> faults = verify_checkpoint(folder);
    if (faults.empty()) return open_step(folder);
    log::warning("checkpoint {} cannot be used: {}{}", folder, faults.front(),
                 faults.size() > 1 ? fmt::format(" (and {} more faults)", faults.size() - 1) : std::string());
  }
  fail(ErrorKind::data, "{} holds {}, but none can be used; the warnings above give the reason for each", run_dir,
       count_text(steps.size(), "checkpoint"));
}

uint64_t load_checkpoint(const CheckpointFolder& folder, const ParameterTable& table, TrainingState& state) {
  return load_parts(folder, table, state, state.trains());
}

uint64_t load_weights(const CheckpointFolder& folder, const ParameterTable& table, TrainingState& state) {
  return load_parts(folder, table, state, false);
}

}  // namespace trireme
