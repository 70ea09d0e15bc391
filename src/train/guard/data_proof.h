#pragma once
// Ranks prove that they read the same data: at the start by sizes, sidecars and blocks, during training by windows.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/snapshot/checkpoint.h"
#include "comm/scalars.h"
#include "data/sample_source.h"

namespace trireme {

/// What distinguishes a file from another one with the same name, one line each: its size; its sidecar's checksum; the
/// checksums of all bytes in up to 64 parts (of a file above 64 MiB: of 64 blocks of 64 KiB); `hash` of the whole file,
/// unless empty. `before` is called before each part. Throws Error::io.
std::string describe_file(const std::string& path, const std::string& hash, const BeforeBlock& before);

/// Collective. `files`: token files and their identity; `others`: files that decide which tokens a sample has. The
/// identity of a file is the checksum of the whole file, or of its sidecar if data.verify has checked every block
/// against it: ranks compare what they have read themselves. Throws CommonError (mismatch) naming ranks, hosts, file
/// and what differs.
void prove_same_data(const std::vector<DataFileFact>& files, const std::vector<std::string>& others, Scalars& scalars,
                     std::string_view host, const BeforeBlock& before);

/// Hashes one window of the data per step, drawn by the seed and the same on every rank: a block in which one rank's
/// data differs is found sooner or later. Does nothing with one rank.
class DataWindows {
 public:
  static constexpr uint64_t kWindow = 64 << 10;  // bytes: microseconds of hashing, one read of a disk

  DataWindows(const std::vector<DataFileFact>& files, uint64_t seed, int ranks);
  /// Hashes the next window.
  void hash_next();
  /// Collective. Compares the windows since the last call. Throws CommonError (mismatch) naming ranks, hosts, file and
  /// bytes. `step`: steps done.
  void compare(Scalars& scalars, std::string_view host, int64_t step);

 private:
  struct Window {
    const MappedFile* file;
    uint64_t begin, bytes;
  };
  Window window(uint64_t number) const;
  uint64_t hash_of(uint64_t number) const;
  [[noreturn]] void find_difference(Scalars& scalars, std::string_view host, int64_t step) const;

  std::vector<MappedFile> files_;
  uint64_t total_ = 0, seed_ = 0;
  uint64_t compared_ = 0, next_ = 0;  ///< in windows
  uint64_t hash_ = 0;                 ///< of the windows since the last comparison
};

}  // namespace trireme
