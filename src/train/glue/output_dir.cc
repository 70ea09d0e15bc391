#include "train/glue/output_dir.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "checkpoint/checkpoint_folder.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/local_disk.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Files that a run leaves when it is stopped before its first checkpoint.
constexpr std::array<std::string_view, 12> kLeftBehind{
    "lock",           "status.json", "status.reserve",     "control.json",
    "metrics.jsonl",  "tensorboard", "trainer_state.json", "mlflow.json",
    "products.jsonl", "log.txt",     "log.txt.1",          "attempts.jsonl"};

bool holds_files(const std::string& folder) {
  if (!fs::is_directory(folder)) return false;
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return !name.starts_with('.') && !name.starts_with("status.json.tmp-") && !name.starts_with("control.json.tmp-") &&
           std::ranges::find(kLeftBehind, name) == kLeftBehind.end();
  });
}

}  // namespace

std::string find_start(const GlueOptions& options) {
  const std::string& folder = options.config().run.dir;
  if (options.resumes_named_checkpoint())
    return open_checkpoint(options.config().checkpoint.resume, options.config().names).path;
  if (options.config().run.overwrite) return {};
  if (read_local_note(folder)) return {};
  if (const auto found = find_resumable(folder, options.config().names)) return found->path;
  require(
      !holds_files(folder), ErrorKind::config,
      "{} exists and holds files, but no checkpoint to resume; name another --output-dir or add --overwrite-output-dir",
      folder);
  return {};
}

void clear_checkpoints(const std::string& folder) {
  for (const int64_t step : list_steps(folder)) remove_folder(folder, step_name(step));
  forget_steps(folder);
}

}  // namespace trireme
