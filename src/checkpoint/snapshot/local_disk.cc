#include "checkpoint/snapshot/local_disk.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_fields.h"
#include "base/json_text.h"
#include "base/log.h"
#include "checkpoint/run_folder/run_folder.h"
#include "checkpoint/run_folder/run_steps.h"
#include "checkpoint/snapshot/stored_shard.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr const char* kNote = "/local.json";

std::optional<int64_t> parse_local_name(const std::string& name) {
  const size_t token = name.rfind('-');
  return token == std::string::npos ? std::nullopt : parse_step_name(name.substr(0, token));
}

/// Its shards that are present with the size that the manifest gives.
std::vector<size_t> shards_in(const std::string& path, const Manifest& manifest) {
  std::vector<size_t> found;
  for (size_t i = 0; i < manifest.shards.size(); ++i) {
    std::error_code error;
    const auto bytes = fs::file_size(path + "/" + manifest.shards[i].file, error);
    if (!error && bytes == manifest.shards[i].bytes) found.push_back(i);
  }
  return found;
}

}  // namespace

std::optional<LocalNote> read_local_note(const std::string& run_dir) {
  const std::string path = run_dir + kNote;
  if (!fs::exists(path)) return {};
  const Json json = read_json(path, 1 << 16);
  return LocalNote{json_field<std::string>(json, "folder", path), json_field<int64_t>(json, "step", path),
                   json_field<int64_t>(json, "copied", path)};
}

void write_local_note(const std::string& run_dir, const LocalNote& note) {
  write_text(run_dir + kNote,
             dump_json(Json{{"folder", note.folder}, {"step", note.step}, {"copied", note.copied}}) + "\n");
}

void forget_local_note(const std::string& run_dir) {
  std::error_code error;
  fs::remove(run_dir + kNote, error);
  if (error) log::warning("cannot remove {}{}: {}", run_dir, kNote, error.message());
}

std::string new_local_folder(const std::string& dir, const std::string& run_dir) {
  std::random_device device;
  const uint64_t id = (uint64_t{device()} << 32) | device();
  fs::path run = fs::absolute(run_dir).lexically_normal();
  if (run.filename().empty()) run = run.parent_path();
  return (fs::path(dir) / (run.filename().string() + "-" + hex64(id))).lexically_normal();
}

std::string local_step_name(int64_t step, const std::string& token) { return step_name(step) + "-" + token; }

std::vector<LocalStep> list_local_steps(const std::string& folder) {
  std::vector<LocalStep> steps;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    const std::string path = item.path().string();
    const auto step = parse_local_name(item.path().filename().string());
    if (!step || !fs::exists(path + "/manifest.json", error)) continue;
    try {
      const std::string text = read_text(path + "/manifest.json");
      LocalStep found{.step = *step,
                      .path = path,
                      .hash = xxh3(std::as_bytes(std::span(text))),
                      .manifest = parse_manifest(text, path + "/manifest.json"),
                      .shards = {}};
      found.shards = shards_in(path, found.manifest);
      steps.push_back(std::move(found));
    } catch (const Error& e) {
      log::warning("the snapshot {} on this host's disk cannot be used: {}", path, e.what());
    }
  }
  std::ranges::sort(steps, [](const LocalStep& a, const LocalStep& b) {
    return std::pair(a.step, a.path) < std::pair(b.step, b.path);
  });
  return steps;
}

std::vector<std::string> verify_local_shards(const LocalStep& step, const std::vector<size_t>& shards) {
  std::vector<std::string> faults;
  uint64_t part_of_weights = 0;
  for (const size_t shard : shards) {
    for (std::string& fault : verify_shard(step.path, step.manifest, shard, part_of_weights))
      faults.push_back(std::move(fault));
  }
  return faults;
}

std::string newest_on_either_side(const std::string& path, bool reads) {
  if (!fs::is_directory(path) || fs::exists(path + "/manifest.json")) return path;
  const std::optional<LocalNote> note = read_local_note(path);
  if (!note) return path;
  const std::vector<int64_t> shared = steps_in_line(path);
  const int64_t newest_shared = shared.empty() ? -1 : shared.back();
  int64_t newest = note->step;
  std::vector<LocalStep> here = list_local_steps(note->folder);
  std::erase_if(here, [&](const LocalStep& step) { return was_abandoned(path, step.step, step.hash); });
  if (!here.empty()) newest = std::max(newest, here.back().step);
  if (newest <= newest_shared) return path;
  const bool whole = !here.empty() && here.back().step == newest && here.back().is_whole();
  if (whole && reads) {
    log::info("the newest snapshot of {}, step {}, is only on this host's disk; reading it from {}", path, newest,
              here.back().path);
    return here.back().path;
  }
  const std::string where = fmt::format("only on the local disks of the hosts, in {}, {}", note->folder,
                                        whole ? "where a single process can read it" : "and not complete on this one");
  require(newest_shared >= 0, ErrorKind::io,
          "{} has no checkpoint yet: the snapshot of step {} is {}; the training command copies it", path, newest,
          where);
  log::write_once(
      log::Level::warning,
      fmt::format(
          "the newest snapshot of {}, step {}, is {}; reading that of step {}; the training command copies the newest",
          path, newest, where, newest_shared));
  return path;
}

void write_alike(const std::string& folder, const std::string& name, const std::string& text, int rank) {
  const std::string own = fmt::format("{}/.{}-of-rank-{}", folder, name, rank), path = folder + "/" + name;
  write_text(own, text);
  require(std::rename(own.c_str(), path.c_str()) == 0, ErrorKind::io, "cannot rename {} to {}: {}", own, path,
          std::strerror(errno));
  sync_folder(folder);
}

void remove_local_step(const std::string& path) {
  std::error_code error;
  // The manifest first: if the process is killed here, the rest does not look like a snapshot.
  fs::remove(path + "/manifest.json", error);
  fs::remove_all(path, error);
  const bool gone = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !gone) log::warning("cannot remove the snapshot {} from this host's disk: {}", path, error.message());
}

void clear_local_folder(const std::string& folder, const std::string& keep) {
  std::error_code error;
  std::vector<std::string> others;
  for (const auto& item : fs::directory_iterator(folder, error)) {
    if (item.path().filename() != keep) others.push_back(item.path());
  }
  for (const std::string& path : others) remove_local_step(path);
}

void remove_local_folder(const std::string& folder) {
  clear_local_folder(folder, {});
  std::error_code error;
  fs::remove(folder, error);  // not when another rank has just taken something into it
}

}  // namespace trireme
