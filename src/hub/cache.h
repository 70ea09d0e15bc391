#pragma once
// The hub's cache on disk, as huggingface_hub lays it out:
//   models--OWNER--NAME/blobs/HASH            contents; HASH.incomplete while they are fetched
//                       snapshots/COMMIT/FILE  links ../../blobs/HASH
//                       refs/REVISION          the commit of a branch or tag at the last request
//   .locks/models--OWNER--NAME/HASH.lock       held while a blob is fetched

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hub/name.h"

namespace trireme::hub {

/// A lock between processes, compatible with huggingface_hub: flock() on a file of .locks/. Held while it exists; the
/// system releases it when its process ends, however that happens.
class FileLock {
 public:
  /// Waits for the lock; while another process holds it, calls `waiting` at once and then every 100 ms; `waiting` may
  /// throw. Makes the parent folders. Throws Error::io, also if the file system does not support such locks.
  FileLock(const std::string& path, const std::function<void()>& waiting);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int fd_ = -1;
};

class Cache {
 public:
  Cache(std::string root, const Repository& repository);

  const std::string& root() const { return root_; }
  std::string folder() const { return folder_; }
  std::string blob(const std::string& hash) const { return folder_ + "/blobs/" + hash; }
  std::string incomplete(const std::string& hash) const { return blob(hash) + ".incomplete"; }
  std::string snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }
  std::string lock(const std::string& hash) const;

  /// The content of refs/REVISION, or the revision itself if it is a commit; empty if it was never fetched.
  std::optional<std::string> commit(const std::string& revision) const;
  /// Paths of the snapshot's readable files, sorted.
  std::vector<std::string> files(const std::string& commit) const;

  /// Makes snapshots/COMMIT/FILE a link to the blob, replacing an existing entry. Throws Error::io.
  void link(const std::string& commit, const std::string& file, const std::string& hash) const;
  /// Writes refs/REVISION unless the revision is the commit itself. Throws Error::io.
  void set_commit(const std::string& revision, const std::string& commit) const;

 private:
  std::string root_, name_, folder_;
};

/// Names of the repositories of a kind with a snapshot in the cache, sorted.
std::vector<std::string> cached_names(const std::string& root, Kind kind);

/// Makes the folder and its parents. Throws Error::io naming the variables that move the cache.
void make_cache_folder(const std::string& path);

}  // namespace trireme::hub
