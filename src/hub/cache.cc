#include "hub/cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"

namespace trireme::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostRefBytes = 256;

}  // namespace

void make_cache_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  require(!error, ErrorKind::io, "cannot create {}: {}; set HF_HOME or HF_HUB_CACHE to another place for the cache",
          path, error.message());
}

Cache::Cache(std::string root, const Repository& repository)
    : root_(std::move(root)), name_(repository.folder()), folder_(root_ + "/" + name_) {}

std::string Cache::lock(const std::string& hash) const {
  return fmt::format("{}/.locks/{}/{}.lock", root_, name_, hash);
}

std::optional<std::string> Cache::commit(const std::string& revision) const {
  if (is_commit(revision)) return revision;
  const std::string path = folder_ + "/refs/" + revision;
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return std::nullopt;
  std::string text = read_text(path, kMostRefBytes);
  while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
  if (!is_commit(text)) return std::nullopt;  // not written by a hub program
  return text;
}

std::vector<std::string> Cache::files(const std::string& commit) const {
  std::vector<std::string> files;
  const fs::path root = snapshot(commit);
  std::error_code error;
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::error_code broken;  // a link without its blob
    if (fs::is_regular_file(it->path(), broken)) files.push_back(it->path().lexically_relative(root).string());
  }
  std::ranges::sort(files);
  return files;
}

void Cache::link(const std::string& commit, const std::string& file, const std::string& hash) const {
  const fs::path path = fs::path(snapshot(commit)) / file;
  make_cache_folder(path.parent_path().string());
  std::string target = "../../";
  for (const char c : file) {
    if (c == '/') target += "../";
  }
  target += "blobs/" + hash;
  std::error_code none;
  if (fs::read_symlink(path, none) == target) return;
  const std::string temporary = path.string() + temporary_suffix();
  const bool linked =
      symlink(target.c_str(), temporary.c_str()) == 0 && std::rename(temporary.c_str(), path.c_str()) == 0;
  require(
      linked, ErrorKind::io,
      "cannot make the link {}: {}; the cache needs a file system with symbolic links: set HF_HUB_CACHE to a folder "
      "there",
      path.string(), std::strerror(errno));
}

void Cache::set_commit(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return;
  const fs::path path = fs::path(folder_) / "refs" / revision;
  make_cache_folder(path.parent_path().string());
  write_text(path.string(), commit);
}

std::vector<std::string> cached_names(const std::string& root, Kind kind) {
  const std::string prefix = kind == Kind::model ? "models--" : "datasets--";
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    std::error_code none;
    if (!name.starts_with(prefix) || !fs::is_directory(it->path() / "snapshots", none)) continue;
    name.erase(0, prefix.size());
    const size_t gap = name.find("--");
    if (gap != name.npos) name.replace(gap, 2, "/");
    names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace trireme::hub
