#pragma once
// Fetches files of a repository into the cache, and finds those already there.

#include <functional>
#include <optional>
#include <string>

#include "base/meter.h"
#include "hub/api.h"
#include "hub/cache.h"
#include "hub/select.h"
#include "hub/settings.h"

namespace trireme::hub {

struct Snapshot {
  std::string folder;  ///< in the cache, with the files below it
  std::string commit;
  Files files;  ///< the requested files
};

/// Called about once a second while waiting or fetching; may throw to end it.
using Alive = std::function<void()>;

/// The cached snapshot of `revision`, if it has all requested files. Does not use the network.
std::optional<Snapshot> find_snapshot(const Settings& settings, const Repository& repository,
                                      const std::string& revision, const Selection& selection);

/// Asks the hub for the commit of `revision` and fetches the missing files. One process per host does so; the others
/// log one line and wait. Throws Unreachable, NotThere, Error::io, Error::data; Error::config if HF_HUB_OFFLINE is set.
Snapshot fetch(const Settings& settings, const Repository& repository, const std::string& revision,
               const Selection& selection, const Alive& alive);

/// The tools of the fetch of one file.
struct Transfer {
  const Settings& settings;
  Http& http;
  const Cache& cache;
  const Repository& repository;
};

/// Bytes of the file that are missing from the cache.
uint64_t missing_bytes(const Cache& cache, const RemoteFile& file);

/// Makes blobs/HASH unless it exists: resumes partial downloads, publishes only contents with the right hash. `waiting`
/// is called while another process fetches the same file (FileLock). Throws Unreachable, NotThere, Error::io (no space:
/// the next call resumes), Error::data if size or hash differ twice from the announced ones.
void download(const Transfer& transfer, const std::string& commit, const RemoteFile& file, Meter& meter,
              const std::function<void()>& waiting);

}  // namespace trireme::hub
