#pragma once
// Fetches one file of the hub into the cache: resumes partial downloads and publishes only contents with the right
// hash.

#include <functional>

#include "base/meter.h"
#include "hub/api.h"
#include "hub/cache.h"

namespace trireme::hub {

/// The tools of a fetch.
struct Transfer {
  const Settings& settings;
  Http& http;
  const Cache& cache;
  const Repository& repository;
};

/// Bytes of the file that are missing from the cache.
uint64_t missing_bytes(const Cache& cache, const RemoteFile& file);

/// Makes blobs/HASH unless it exists. `waiting` is called while another process fetches the same file (FileLock).
/// Throws Unreachable, NotThere, Error::io (no space: the next call resumes), Error::data if size or hash differ twice
/// from the announced ones.
void download(const Transfer& transfer, const std::string& commit, const RemoteFile& file, Meter& meter,
              const std::function<void()>& waiting);

}  // namespace trireme::hub
