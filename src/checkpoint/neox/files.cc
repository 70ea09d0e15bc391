#include "checkpoint/neox/files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/snapshot/checkpoint.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr size_t kMostPointerBytes = 4096;  // the name of a folder
constexpr std::string_view kStep = "global_step{}";
constexpr std::string_view kLayer = "layer_{}-model_{}-model_states.pt";
constexpr std::string_view kModelStates = "mp_rank_{}_model_states.pt";
constexpr std::string_view kOptimizer = "zero_pp_rank_{}_mp_rank_{}_optim_states.pt";
constexpr std::string_view kOptimizer16 = "bf16_zero_pp_rank_{}_mp_rank_{}_optim_states.pt";
constexpr std::string_view kStage3 = "zero_pp_rank_{}_mp_rank_{}_model_states.pt";
constexpr std::string_view kExpert = "layer_{}_expert_{}_mp_rank_{}_model_states.pt";

/// The numbers in `name` at the "{}" of the pattern; nothing if it does not match.
std::optional<std::vector<int64_t>> numbers_in(std::string_view pattern, std::string_view name) {
  std::vector<int64_t> numbers;
  for (size_t at; (at = pattern.find("{}")) != pattern.npos;) {
    if (!name.starts_with(pattern.substr(0, at))) return {};
    name.remove_prefix(at);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc() || number < 0 || end == name.data()) return {};
    name.remove_prefix(static_cast<size_t>(end - name.data()));
    numbers.push_back(number);
    pattern.remove_prefix(at + 2);
  }
  return name == pattern ? std::optional(numbers) : std::nullopt;
}

bool holds_a_step(const fs::path& folder) {
  for (const std::string& name : {neox_model_states_file(0), neox_layer_file(0, 0), fmt::format(kStage3, 0, "00")}) {
    if (std::error_code unreadable; fs::exists(folder / name, unreadable)) return true;
  }
  return false;
}

/// Those in a folder, by their numbers.
std::map<int64_t, std::string> steps_in(const std::string& path) {
  std::map<int64_t, std::string> steps;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(path, unreadable)) {
    const auto step = numbers_in(kStep, entry.path().filename().string());
    if (step && entry.is_directory(unreadable)) steps[step->front()] = entry.path().string();
  }
  return steps;
}

/// The step of a folder of steps without `latest`, as a copy of one step leaves. A run of ours has its own rule.
std::optional<std::string> largest_step(const std::string& path) {
  const std::map<int64_t, std::string> steps = steps_in(path);
  if (steps.empty() || !list_steps(path).empty()) return {};
  const std::string& folder = steps.rbegin()->second;
  require(
      holds_a_step(folder), ErrorKind::data,
      "{} has no `latest`, and the largest step there, {}, has no mp_rank or layer files; name another step's folder",
      path, folder);
  return folder;
}

template <class Key>
void put(std::map<Key, std::string>& files, const Key& key, const std::string& path) {
  const auto [at, added] = files.emplace(key, path);
  require(added, ErrorKind::data, "{} and {} are the same part of a checkpoint; remove one of them", at->second, path);
}

}  // namespace

std::string neox_layer_file(int64_t layer, int64_t tensor_rank) {
  return fmt::format("layer_{:02}-model_{:02}-model_states.pt", layer, tensor_rank);
}
std::string neox_model_states_file(int64_t rank) { return fmt::format("mp_rank_{:02}_model_states.pt", rank); }
std::string neox_optimizer_file(int64_t data_rank, int64_t rank, bool bf16) {
  return fmt::format("{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", bf16 ? "bf16_" : "", data_rank, rank);
}

std::optional<std::string> find_neox_step(const std::string& path) {
  std::error_code unreadable;
  if (!fs::is_directory(path, unreadable)) return {};
  if (holds_a_step(path)) return path;
  const std::string latest = (fs::path(path) / "latest").string();
  if (!fs::is_regular_file(latest, unreadable)) return largest_step(path);
  std::string name = read_text(latest, kMostPointerBytes);
  name.erase(name.find_last_not_of(" \t\r\n") + 1);
  if (name.empty() || name.find('/') != name.npos || parse_step_name(name)) return {};
  const std::string folder = (fs::path(path) / name).string();
  const bool is_theirs = numbers_in(kStep, name).has_value();
  if (!is_theirs && !holds_a_step(folder)) return {};
  require(fs::is_directory(folder, unreadable), ErrorKind::data,
          "{} names {}, but this folder does not exist beside it; copy it there, or name another step's folder", latest,
          name);
  return folder;
}

std::vector<std::string> list_neox_steps(const std::string& path) {
  if (holds_a_step(path)) return {path};
  std::vector<std::string> folders;
  for (const auto& [step, folder] : steps_in(path)) folders.push_back(folder);
  if (folders.empty()) {  // custom name
    if (const auto latest = find_neox_step(path)) folders.push_back(*latest);
  }
  return folders;
}

NeoxFiles list_neox_files(const std::string& folder) {
  NeoxFiles files;
  files.folder = folder;
  fs::path named = fs::path(folder).lexically_normal();
  if (named.filename().empty()) named = named.parent_path();
  if (const auto step = numbers_in(kStep, named.filename().string())) files.step = step->front();
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string(), path = entry.path().string();
    require(!numbers_in(kStage3, name), ErrorKind::data,
            "{}: weights sharded by ZeRO stage 3 are not supported; merge them with DeepSpeed's zero_to_fp32.py", path);
    require(!numbers_in(kExpert, name), ErrorKind::data, "{}: mixtures of experts are not supported", path);
    if (const auto layer = numbers_in(kLayer, name)) {
      put(files.layers, {(*layer)[0], (*layer)[1]}, path);
    } else if (const auto states = numbers_in(kModelStates, name)) {
      put(files.model_states, (*states)[0], path);
    } else if (const auto optimizer = numbers_in(kOptimizer, name)) {
      put(files.optimizers, {(*optimizer)[1], (*optimizer)[0]}, path);
    } else if (const auto optimizer16 = numbers_in(kOptimizer16, name)) {
      put(files.optimizers, {(*optimizer16)[1], (*optimizer16)[0]}, path);
    }
  }
  const fs::path configs = fs::path(folder) / "configs";
  if (fs::is_directory(configs)) {
    for (const auto& entry : fs::directory_iterator(configs)) {
      const std::string extension = entry.path().extension().string();
      if (extension == ".yml" || extension == ".yaml") files.configs.push_back(entry.path().string());
    }
  }
  std::ranges::sort(files.configs);
  return files;
}

}  // namespace trireme
