#include "checkpoint/run_folder/run_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/folder_token.h"
#include "base/log.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kStep = "step-", kSaving = ".saving-", kTrash = ".trash-";
constexpr size_t kStepDigits = 8;

/// Temporary files that a killed process left.
bool is_temporary(const std::string& name) {
  return name.starts_with("latest.tmp-") || name.starts_with("best.tmp-") || name.starts_with("left-behind.tmp-") ||
         name.starts_with("status.json.tmp-") || name.starts_with("control.json.tmp-") ||
         name.starts_with("local.json.tmp-") || name.starts_with(kTokenPrefix);
}

bool is_complete(const fs::path& step_folder) { return fs::exists(step_folder / "manifest.json"); }

void rename_or_fail(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return;
  fail(ErrorKind::io, "cannot rename {} to {}: {}", from, to, std::strerror(errno));
}

}  // namespace

std::string step_name(int64_t step) { return fmt::format("{}{:0{}}", kStep, step, kStepDigits); }
std::string saving_name(int64_t step, const std::string& token) {
  return fmt::format("{}{:0{}}-{}", kSaving, step, kStepDigits, token);
}
std::string shard_name(int rank, int ranks) { return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, ranks); }

std::optional<int64_t> parse_step_name(const std::string& name) {
  if (!name.starts_with(kStep) || name.size() < kStep.size() + kStepDigits) return {};
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
  if (error != std::errc{} || step_name(step) != name) return {};
  return step;
}

std::vector<int64_t> list_steps(const std::string& run_dir) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(run_dir, error)) {
    const auto step = parse_step_name(item.path().filename().string());
    if (step && is_complete(item.path())) steps.push_back(*step);
  }
  require(!error || error == std::errc::no_such_file_or_directory, ErrorKind::io, "cannot list run folder {}: {}",
          run_dir, error.message());
  std::sort(steps.begin(), steps.end());
  return steps;
}

void prepare_run_folder(const std::string& run_dir) {
  std::error_code error;
  fs::create_directories(run_dir, error);
  require(!error, ErrorKind::io, "cannot create run folder {}: {}", run_dir, error.message());
  if (access(run_dir.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorKind::io, "cannot write to run folder {}: {}", run_dir, std::strerror(errno));
  }
  std::vector<fs::path> leftovers;
  for (const auto& item : fs::directory_iterator(run_dir, error)) {
    const std::string name = item.path().filename().string();
    if (name.starts_with(kSaving) || name.starts_with(kTrash) || is_temporary(name)) leftovers.push_back(item.path());
    if (parse_step_name(name) && !is_complete(item.path())) {
      log::warning("{} has no manifest.json; ignoring it as left by an interrupted copy", item.path().string());
    }
  }
  for (const fs::path& path : leftovers) {
    log::info("removing {}, left by an interrupted save", path.string());
    fs::remove_all(path, error);
    if (error) log::warning("cannot remove {}: {}", path.string(), error.message());
  }
}

std::optional<int64_t> read_pointer(const std::string& run_dir, const char* name) {
  const std::string path = run_dir + "/" + name;
  if (!fs::exists(path)) return {};
  std::string text;
  try {
    text = read_text(path, 4096);
  } catch (const Error& e) {
    log::warning("{}; expected the name of a step folder; ignoring it", e.what());
    return {};
  }
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const auto step = parse_step_name(text);
  if (!step) log::warning("{} should name a step folder, but contains \"{}\"; ignoring it", path, text.substr(0, 80));
  return step;
}

void write_pointer(const std::string& run_dir, const char* name, int64_t step) {
  write_text(run_dir + "/" + name, step_name(step) + "\n");
}

void replace_folder(const std::string& run_dir, const std::string& from, const std::string& to) {
  const std::string source = run_dir + "/" + from, target = run_dir + "/" + to;
  if (!fs::exists(target)) {
    rename_or_fail(source, target);
    sync_folder(run_dir);
    return;
  }
  // One system call swaps both, so that the name refers to a complete folder at every instant; file systems without it
  // (NFS) get two renames.
  if (renameat2(AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    sync_folder(run_dir);
    remove_folder(run_dir, from);
    return;
  }
  const std::string old = run_dir + "/" + std::string(kTrash) + to;
  fs::remove_all(old);
  rename_or_fail(target, old);
  rename_or_fail(source, target);
  sync_folder(run_dir);
  fs::remove_all(old);
}

void remove_folder(const std::string& run_dir, const std::string& name) {
  const std::string path = run_dir + "/" + name;
  const std::string trash = run_dir + "/" + std::string(kTrash) + name;
  std::error_code error;
  fs::remove_all(trash, error);
  rename_or_fail(path, trash);
  fs::remove_all(trash, error);
  require(!error, ErrorKind::io, "cannot remove {}: {}", trash, error.message());
}

SnapshotSpace check_space(const std::string& folder, const std::string& what, std::span<const uint64_t> files,
                          std::string_view advice, std::string_view dir_option) {
  const std::string other_disk = fmt::format("free some space or set {} to another disk", dir_option);
  if (advice.empty()) advice = other_disk;
  struct statvfs info {};
  if (statvfs(folder.c_str(), &info) != 0) {
    fail(ErrorKind::io, "cannot determine the free space of {}: {}", folder, std::strerror(errno));
  }
  const uint64_t block = std::max<uint64_t>(info.f_frsize, 1), free = uint64_t{info.f_bavail} * block;
  uint64_t blocks = 2;  // the step's folder and a pointer
  for (const uint64_t bytes : files) blocks += (bytes + block - 1) / block;
  require(free >= blocks * block, ErrorKind::io, "{} needs {:.2f} MB, but the file system has {:.1f} MB free; {}", what,
          static_cast<double>(blocks * block) / 1e6, static_cast<double>(free) / 1e6, advice);
  const uint64_t names = files.size() + 2;
  // File systems that make inodes as needed report 0.
  require(info.f_files == 0 || info.f_favail >= names, ErrorKind::io,
          "{} needs {} files, but the file system has {} inodes free; {}", what, names, info.f_favail, advice);
  return {blocks * block, free};
}

}  // namespace trireme
