#pragma once
// The hub's cache on disk, as huggingface_hub lays it out:
//   models--OWNER--NAME/blobs/HASH            contents; HASH.incomplete while they are fetched
//                       snapshots/COMMIT/FILE  links ../../blobs/HASH
//                       refs/REVISION          the commit that a branch or tag meant when it was last asked for
//   .locks/models--OWNER--NAME/HASH.lock       held while a blob is fetched

#include <optional>
#include <string>
#include <vector>

#include "hub/name.h"

namespace trireme::hub {

class Cache {
 public:
  Cache(std::string root, const Repository& repository);

  const std::string& root() const { return root_; }
  std::string folder() const { return folder_; }
  std::string blob(const std::string& hash) const { return folder_ + "/blobs/" + hash; }
  std::string incomplete(const std::string& hash) const { return blob(hash) + ".incomplete"; }
  std::string snapshot(const std::string& commit) const { return folder_ + "/snapshots/" + commit; }
  std::string lock(const std::string& hash) const;

  /// What refs/REVISION says, or the revision itself where it is a commit; nothing where it was never fetched.
  std::optional<std::string> commit(const std::string& revision) const;
  /// Paths of the snapshot's files that can be read, sorted.
  std::vector<std::string> files(const std::string& commit) const;

  /// Makes snapshots/COMMIT/FILE link to the blob, in place of what is there. Throws Error::io.
  void link(const std::string& commit, const std::string& file, const std::string& hash) const;
  /// Writes refs/REVISION, unless that is the commit itself. Throws Error::io.
  void set_commit(const std::string& revision, const std::string& commit) const;

 private:
  std::string root_, name_, folder_;
};

/// Names of the repositories of a kind that the cache has a snapshot of, sorted.
std::vector<std::string> cached_names(const std::string& root, Kind kind);

/// makes the folder and those above it. Throws Error::io naming the variables that move the cache.
void make_cache_folder(const std::string& path);

}  // namespace trireme::hub
