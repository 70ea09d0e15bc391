#include "hub/fetch.h"

#include <fmt/ranges.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>

#include "base/count.h"
#include "base/log.h"
#include "base/text.h"
#include "hub/api.h"
#include "hub/cache.h"

namespace trireme::hub {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostNamed = 12;
constexpr uint64_t kSpareBytes = uint64_t{16} << 20;  // links, references and the folders' own blocks

/// Checks the space before anything is fetched.
void require_space(const std::string& folder, const std::string& name, uint64_t bytes) {
  struct statvfs system {};
  if (bytes == 0 || statvfs(folder.c_str(), &system) != 0) return;
  const uint64_t space = uint64_t{system.f_bavail} * system.f_frsize;
  require(bytes + kSpareBytes <= space, ErrorKind::io,
          "{} needs {} more in {}, which has {} free; free some space, or set HF_HUB_CACHE to a folder with more", name,
          human_bytes(bytes + kSpareBytes), folder, human_bytes(space));
}

/// Logs once that it waits for another process.
class Patience {
 public:
  Patience(std::string what, const Alive& alive) : what_(std::move(what)), alive_(alive) {}
  void operator()() {
    if (!said_) log::info_all("{}: waiting for another process on this host that fetches it", what_);
    said_ = true;
    alive_();
  }
  bool waited() const { return said_; }

 private:
  std::string what_;
  const Alive& alive_;
  bool said_ = false;
};

/// One fetch under its lock.
class Fetch {
 public:
  Fetch(const Settings& settings, const Repository& repository, const Alive& alive)
      : settings_(settings),
        repository_(repository),
        alive_(alive),
        cache_(settings.cache, repository),
        http_(settings, alive) {}

  Snapshot run(const std::string& revision, const Selection& selection) {
    const Listing listing = list_files(http_, settings_, repository_, revision);
    Snapshot snapshot{cache_.snapshot(listing.commit), listing.commit, selection.first(listing.files)};
    if (snapshot.files.empty()) refuse(listing, selection);
    bring(listing.commit, snapshot.files);
    const Files more = selection.then(listing.files, snapshot.folder);
    bring(listing.commit, more);
    snapshot.files.insert(snapshot.files.end(), more.begin(), more.end());
    cache_.set_commit(revision, listing.commit);
    return snapshot;
  }

 private:
  [[noreturn]] void refuse(const Listing& listing, const Selection& selection) const {
    Files shown = listing.files;
    const size_t hidden = shown.size() > kMostNamed ? shown.size() - kMostNamed : 0;
    shown.resize(shown.size() - hidden);
    fail(ErrorKind::io, "the {} {} on the hub has no {}; it has {}{}", name_of(repository_.kind), repository_.name,
         selection.what(), shown.empty() ? "no files" : fmt::format("{}", fmt::join(shown, ", ")),
         hidden > 0 ? fmt::format(" and {} more", hidden) : "");
  }

  void bring(const std::string& commit, const Files& files) {
    std::vector<RemoteFile> missing;
    uint64_t bytes = 0;
    for (const std::string& file : files) {
      std::error_code none;
      if (fs::exists(cache_.snapshot(commit) + "/" + file, none)) continue;
      missing.push_back(ask_for_file(http_, settings_, repository_, commit, file));
      bytes += missing_bytes(cache_, missing.back());
    }
    if (missing.empty()) return;
    make_cache_folder(cache_.snapshot(commit));
    require_space(cache_.folder(), repository_.name, bytes);
    if (bytes > 0)
      log::info_all("fetching {} of {} ({}) from {} into {}", count_text(missing.size(), "file"), repository_.name,
                    human_bytes(bytes), settings_.endpoint, cache_.folder());
    Meter meter(repository_.name, bytes);
    const Transfer transfer{settings_, http_, cache_, repository_};
    for (const RemoteFile& file : missing) {
      download(transfer, commit, file, meter, Patience(file.path, alive_));
      cache_.link(commit, file.path, file.hash);
    }
    if (bytes > 0) log::info_all("{}: {}", repository_.name, meter.summary());
  }

  const Settings& settings_;
  const Repository& repository_;
  const Alive& alive_;
  Cache cache_;
  Http http_;
};

}  // namespace

std::optional<Snapshot> find_snapshot(const Settings& settings, const Repository& repository,
                                      const std::string& revision, const Selection& selection) {
  require_revision(revision);
  const Cache cache(settings.cache, repository);
  const std::optional<std::string> commit = cache.commit(revision);
  if (!commit) return std::nullopt;
  const std::string folder = cache.snapshot(*commit);
  const Files here = cache.files(*commit);
  if (!selection.whole(here, folder)) return std::nullopt;
  Files files = selection.first(here);
  const Files more = selection.then(here, folder);
  files.insert(files.end(), more.begin(), more.end());
  return Snapshot{folder, *commit, std::move(files)};
}

Snapshot fetch(const Settings& settings, const Repository& repository, const std::string& revision,
               const Selection& selection, const Alive& alive) {
  require_revision(revision);
  require(!settings.offline, ErrorKind::config, "HF_HUB_OFFLINE is set: nothing is fetched");
  Patience patience(repository.name, alive);
  const FileLock lock(Cache(settings.cache, repository).lock("fetch"), std::ref(patience));
  if (patience.waited()) {
    std::optional<Snapshot> done = find_snapshot(settings, repository, revision, selection);
    if (done) return *done;
  }
  return Fetch(settings, repository, alive).run(revision, selection);
}

}  // namespace trireme::hub
