#include "checkpoint/run_folder/run_steps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "base/count.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_folder.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLeftBehind = "left-behind";

std::string manifest_hash(const std::string& run_dir, int64_t step) {
  const MappedFile manifest(run_dir + "/" + step_name(step) + "/manifest.json");
  return hex64(xxh3(manifest.bytes()));
}

/// Hashes of manifests by step. Lines that are not understood count for nothing.
std::map<int64_t, std::string> read_left_behind(const std::string& run_dir) {
  std::map<int64_t, std::string> left;
  const std::string path = run_dir + "/" + kLeftBehind;
  if (!fs::exists(path)) return left;
  std::istringstream lines(read_text(path, size_t{1} << 20));
  for (std::string name, hash; lines >> name >> hash;) {
    if (const auto step = parse_step_name(name)) left[*step] = hash;
  }
  return left;
}

bool is_left(const std::map<int64_t, std::string>& left, const std::string& run_dir, int64_t step) {
  const auto found = left.find(step);
  return found != left.end() && found->second == manifest_hash(run_dir, step);
}

/// Warns if `latest` is wrong.
void explain(const std::string& run_dir, std::optional<int64_t> latest, const std::vector<int64_t>& steps,
             const OptionNames& names) {
  if (!latest || *latest == steps.back()) return;
  const std::string newest = step_name(steps.back());
  if (!std::binary_search(steps.begin(), steps.end(), *latest)) {
    log::warning("{0}/latest names {1}, but {0}/{1} is not a complete checkpoint; the newest one is {2}", run_dir,
                 step_name(*latest), newest);
  } else {
    log::warning(
        "{0}/latest names {1}, but {2} is complete and newer, so it is used; to resume from the older one, set "
        "{3} {0}/{1}",
        run_dir, step_name(*latest), newest, names("--checkpoint.resume"));
  }
}

}  // namespace

std::vector<int64_t> steps_in_line(const std::string& run_dir) {
  std::vector<int64_t> steps = list_steps(run_dir);
  const auto left = read_left_behind(run_dir);
  std::erase_if(steps, [&](int64_t step) { return is_left(left, run_dir, step); });
  return steps;
}

std::optional<int64_t> newest_step(const std::string& run_dir, const OptionNames& names) {
  const std::vector<int64_t> steps = steps_in_line(run_dir);
  const auto latest = read_pointer(run_dir, "latest");
  if (!steps.empty()) {
    explain(run_dir, latest, steps, names);
    return steps.back();
  }
  const std::vector<int64_t> left = list_steps(run_dir);
  require(left.empty(), ErrorKind::data,
          "the steps of {0} were set aside when the run returned to an older step, and no snapshot was saved since "
          "then; name the step to resume from: {2} {0}/{1}",
          run_dir, left.empty() ? std::string() : step_name(left.back()), names("--checkpoint.resume"));
  require(!latest, ErrorKind::data,
          "{0}/latest names {1}, but {0} has no complete checkpoint: its step folders are missing; restore them to "
          "resume the run, or start a new run with {2}",
          run_dir, step_name(latest.value_or(0)), names("--checkpoint.resume none"));
  return {};
}

bool was_abandoned(const std::string& run_dir, int64_t step, uint64_t manifest_hash) {
  const auto left = read_left_behind(run_dir);
  const auto found = left.find(step);
  return found != left.end() && found->second == hex64(manifest_hash);
}

void abandon_later_steps(const std::string& run_dir, int64_t step) {
  std::vector<std::string> lines;
  for (const int64_t later : list_steps(run_dir)) {
    if (later > step) lines.push_back(fmt::format("{} {}\n", step_name(later), manifest_hash(run_dir, later)));
  }
  if (lines.empty() && !fs::exists(run_dir + "/" + kLeftBehind)) return;
  write_text(run_dir + "/" + kLeftBehind, fmt::format("{}", fmt::join(lines, "")));
  if (!lines.empty())
    log::info("the run returns to step {} and sets {} of {} aside until it has passed {} again", step,
              count_text(lines.size(), "later snapshot"), run_dir, lines.size() == 1 ? "that step" : "those steps");
}

void forget_steps(const std::string& run_dir) {
  for (const char* name : {"latest", "best", kLeftBehind}) {
    std::error_code error;
    fs::remove(run_dir + "/" + name, error);
    require(!error, ErrorKind::io, "cannot remove {}/{}: {}", run_dir, name, error.message());
  }
}

}  // namespace trireme
