#pragma once
// One file of the hub into the cache: what was begun is gone on with, and only contents of the right hash get the name.

#include <functional>

#include "hub/api.h"
#include "hub/cache.h"
#include "hub/meter.h"

namespace trireme::hub {

/// What a fetch works with.
struct Transfer {
  const Settings& settings;
  Http& http;
  const Cache& cache;
  const Repository& repository;
};

/// Bytes of the file that are not in the cache yet.
uint64_t missing_bytes(const Cache& cache, const RemoteFile& file);

/// Makes blobs/HASH, unless it is there. `waiting` is called while another process fetches the same (FileLock). Throws
/// Unreachable, NotThere, Error::io (no space: what has come stays and is gone on with), Error::data where size or hash
/// are not those that were announced, twice.
void download(const Transfer& transfer, const std::string& commit, const RemoteFile& file, Meter& meter,
              const std::function<void()>& waiting);

}  // namespace trireme::hub
