// trireme checkpoint list|show|verify|prune: the checkpoints of a run folder.

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/run_pointer.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/neox/checkpoint.h"
#include "checkpoint/neox/files.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_lock.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/local_disk.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/run/contact.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Step folders of GPT-NeoX; empty for a run or step folder of Trireme.
std::vector<std::string> neox_folders(const std::string& path) {
  const bool ours = fs::exists(path + "/manifest.json") || !list_steps(path).empty();
  return ours ? std::vector<std::string>() : list_neox_steps(path);
}

std::string loss_text(double loss) { return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "-"; }

/// The snapshots of a run on this host's disk.
std::vector<LocalStep> local_steps(const std::string& run) {
  const auto note = read_local_note(run);
  return note ? list_local_steps(note->folder) : std::vector<LocalStep>();
}

/// The step folders of a path: the path itself, or all steps of a run.
std::vector<std::string> step_folders(const std::string& path) {
  require(fs::is_directory(path), ErrorKind::io, "{}: the folder does not exist", path);
  if (fs::exists(path + "/manifest.json")) return {path};
  std::vector<std::string> folders;
  for (const int64_t step : list_steps(path)) folders.push_back(path + "/" + step_name(step));
  require(!folders.empty() || read_local_note(path), ErrorKind::io, "{} has no checkpoint", path);
  return folders;
}

constexpr const char* kListRow = "{:<16} {:>14} {:>10} {:>10}  {}\n";

/// The part of a checkpoint's row that does not depend on the program that wrote it; false if it cannot be read.
std::optional<CheckpointFolder> open_for_list(const std::string& folder) {
  try {
    return open_checkpoint(folder);
  } catch (const Error& e) {
    fmt::print("{:<16} bad: {}\n", fs::path(folder).filename().string(), e.what());
    return {};
  }
}

void print_row(const CheckpointFolder& checkpoint, const std::string& note) {
  const RunCounters& p = checkpoint.facts.progress;
  fmt::print(kListRow, fs::path(checkpoint.path).filename().string(), p.samples, p.updates, loss_text(p.best_loss),
             note);
}

/// The folder of the step that NeoX's `latest` names; it is not recorded in the step folder itself. An invalid one
/// gives a warning.
std::optional<std::string> latest_of_neox(const std::string& path) {
  if (!fs::exists(path + "/latest")) return {};
  try {
    return find_neox_step(path);
  } catch (const Error& e) {
    log::warning("{}", e.what());
    return {};
  }
}

void list_neox(const std::string& path, const std::vector<std::string>& folders) {
  const auto latest = latest_of_neox(path);
  for (const std::string& folder : folders) {
    const auto checkpoint = open_for_list(folder);
    if (!checkpoint) continue;
    std::string note = latest && fs::equivalent(*latest, folder) ? "latest " : "";
    note += checkpoint->origin == CheckpointOrigin::neox ? "of GPT-NeoX" : "of GPT-NeoX, weights only";
    print_row(*checkpoint, note);
  }
}

std::string shards_text(const LocalStep& step) {
  return fmt::format("{} of {} are on this host's disk", step.shards.size(),
                     count_text(step.manifest.shards.size(), "shard"));
}

/// The snapshots of a run on local disks: rows for this host, the run's note for the others.
void list_local(const std::string& run) {
  const auto note = read_local_note(run);
  if (!note) return;
  for (const LocalStep& step : list_local_steps(note->folder)) {
    const RunCounters& p = step.manifest.facts.progress;
    fmt::print(kListRow, step_name(step.step), p.samples, p.updates, loss_text(p.best_loss),
               shards_text(step) + ", in " + step.path);
  }
  if (const auto text = local_snapshot(run)) fmt::print("{}\n", *text);
}

int list(const std::string& run) {
  fmt::print(kListRow, "step", "samples", "updates", "best loss", "note");
  if (const auto folders = neox_folders(run); !folders.empty()) {
    list_neox(run, folders);
    return 0;
  }
  const auto latest = read_pointer(run, "latest"), best = read_pointer(run, "best");
  const std::vector<int64_t> in_line = steps_in_line(run);
  for (const std::string& folder : step_folders(run)) {
    const auto checkpoint = open_for_list(folder);
    if (!checkpoint) continue;
    const RunCounters& p = checkpoint->facts.progress;
    std::string note;
    if (latest == p.step) note += "latest ";
    if (best == p.step) note += "best ";
    if (!std::binary_search(in_line.begin(), in_line.end(), p.step)) note += "set aside";
    print_row(*checkpoint, note);
  }
  list_local(run);
  return 0;
}

int show(const std::string& path) {
  const CheckpointFolder folder = open_checkpoint(path);
  const CheckpointFacts& facts = folder.facts;
  const RunCounters& p = facts.progress;
  const ParameterTable table(facts.spec);
  fmt::print("checkpoint  {}\nstep        {}\nsamples     {}\nupdates     {}\nskipped     {}\n", folder.path, p.step,
             p.samples, p.updates, p.skipped);
  fmt::print("best loss   {}{}\n", loss_text(p.best_loss),
             p.best_step >= 0 ? fmt::format(" (step {})", p.best_step) : std::string());
  fmt::print("model       {}, {}, width {}, context {}, vocabulary {}: {:.2f} M parameters\n",
             count_text(facts.spec.layers, "layer"), count_text(facts.spec.heads, "head"), facts.spec.width,
             facts.spec.context, facts.spec.vocabulary, static_cast<double>(table.total()) / 1e6);
  fmt::print("parameters  {}\n",
             !facts.parameter_hash.empty() ? "hash " + facts.parameter_hash
             : !facts.layout_hash.empty()
                 ? fmt::format("hash {} of an older version, which depends on the layout", facts.layout_hash)
                 : "no hash was stored");
  fmt::print("tokenizer   {}\n", facts.tokenizer_json.empty() ? "none" : "tokenizer.json");
  for (const DataFileFact& file : facts.data_files) {
    fmt::print("data        {} ({} bytes, XXH3 {})\n", file.path, file.bytes, file.hash);
  }
  if (!facts.config_json.empty()) fmt::print("configuration\n{}\n", facts.config_json);
  return 0;
}

using Faults = std::vector<std::string>;

/// Faults of a run folder besides those of its complete steps: incomplete step folders, pointers to missing steps.
std::map<std::string, Faults> faults_of_run(const std::string& run) {
  std::map<std::string, Faults> bad;
  for (const auto& item : fs::directory_iterator(run)) {
    const std::string path = item.path().string();
    if (parse_step_name(item.path().filename().string()) && !fs::exists(path + "/manifest.json"))
      bad[path].push_back(
          path +
          "/manifest.json is missing: the copy was interrupted, or the file was deleted; the folder is not used");
  }
  for (const char* name : {"latest", "best"}) {
    const auto step = read_pointer(run, name);
    if (step && !fs::exists(run + "/" + step_name(*step) + "/manifest.json"))
      bad[run + "/" + name].push_back(fmt::format("it names {}, which does not exist", step_name(*step)));
  }
  return bad;
}

std::map<std::string, Faults> verify_neox(const std::string& path, const std::vector<std::string>& folders) {
  std::map<std::string, Faults> found;
  for (const std::string& folder : folders) found[folder] = verify_neox_checkpoint(folder);
  try {
    find_neox_step(path);
  } catch (const Error& e) {
    found[path + "/latest"].push_back(e.what());
  }
  return found;
}

std::map<std::string, Faults> verify_run(const std::string& path) {
  std::map<std::string, Faults> found;
  const bool is_step = fs::exists(path + "/manifest.json") || parse_step_name(fs::path(path).filename().string());
  if (!is_step) found = faults_of_run(path);
  if (is_step || found.empty() || !list_steps(path).empty()) {
    for (const std::string& folder : is_step ? std::vector{path} : step_folders(path))
      found[folder] = verify_checkpoint(folder);
  }
  return found;
}

/// A folder is bad only on this host: other hosts may have the rest of a snapshot.
int verify_local(const std::string& run) {
  int code = 0;
  for (const LocalStep& step : local_steps(run)) {
    const Faults faults = verify_local_shards(step, step.shards);
    fmt::print("{}: {}; {}\n", step.path, faults.empty() ? "good" : "bad", shards_text(step));
    for (const std::string& fault : faults) fmt::print("  {}\n", fault);
    if (!faults.empty()) code = exit_code(ErrorKind::data);
  }
  return code;
}

/// Exit code 1 if one is bad.
int verify(const std::string& path) {
  require(fs::is_directory(path), ErrorKind::io, "{}: the folder does not exist", path);
  const auto of_neox = neox_folders(path);
  int code = 0;
  for (const auto& [folder, faults] : of_neox.empty() ? verify_run(path) : verify_neox(path, of_neox)) {
    fmt::print("{}: {}\n", folder, faults.empty() ? "good" : "bad");
    for (const std::string& fault : faults) fmt::print("  {}\n", fault);
    if (!faults.empty()) code = exit_code(ErrorKind::data);
  }
  return std::max(code, verify_local(path));
}

/// Deletes snapshots on this host's disk that the run folder also has.
void prune_local(const std::string& run) {
  const std::vector<int64_t> shared = steps_in_line(run);
  for (const LocalStep& step : local_steps(run)) {
    if (shared.empty() || step.step > shared.back()) continue;
    remove_local_step(step.path);
    fmt::print("deleted {}: the run folder has this snapshot or a newer one\n", step.path);
  }
}

int prune(const std::string& run, int64_t keep) {
  require(fs::is_directory(run), ErrorKind::io, "{}: the folder does not exist", run);
  require(neox_folders(run).empty(), ErrorKind::usage,
          "{} has checkpoints of GPT-NeoX, which Trireme never changes or deletes; delete global_step folders by hand",
          run);
  const std::string advice = fmt::format(
      "prune it after the job has ended: `trireme status {}` shows its state, `trireme stop {}` stops it; with "
      "--checkpoint.keep, the run itself deletes old snapshots",
      run, run);
  const RunLock lock(run, this_owner(), false, advice);
  const std::vector<int64_t> deleted = prune_checkpoints(run, keep);
  fmt::print("deleted {} of {}{}{}\n", count_text(deleted.size(), "checkpoint"), run, deleted.empty() ? "" : ": steps ",
             fmt::join(deleted, ", "));
  prune_local(run);
  return 0;
}

}  // namespace

int run_checkpoint(CommandLine line) {
  Flags app(std::move(line), "trireme checkpoint", "Lists, shows, verifies and deletes the checkpoints of a run.");
  std::string path;
  int64_t keep = 0;
  const auto action = [&](const char* name, const char* help, const char* what) -> Flags& {
    Flags& command = app.add_action(name, help);
    command.add("DIR", path, what).required();
    return command;
  };
  const Flags& list_command =
      action("list", "one line per checkpoint of a run or of GPT-NeoX", "folder with the checkpoints");
  const Flags& show_command = action("show", "contents of a checkpoint", "run folder (its latest) or step folder");
  const Flags& verify_command = action("verify", "read and check every byte; exit code 1 if one is wrong",
                                       "run folder (all its checkpoints) or step folder");
  action("prune", "delete old checkpoints; the latest and the best always stay", "run folder")
      .add("--keep", keep, "number of newest checkpoints to keep")
      .required()
      .positive();
  if (const auto code = app.parse()) return *code;
  path = follow_run_pointer(path);
  if (list_command.chosen()) return list(path);
  if (show_command.chosen()) return show(path);
  if (verify_command.chosen()) return verify(path);
  return prune(path, keep);
}

}  // namespace trireme
