#pragma once
// Snapshots on the hosts' local disks (checkpoint.local) when a run starts: which one is resumed, and which folder is
// used.

#include <optional>
#include <string>

#include "checkpoint/snapshot/local_disk.h"
#include "comm/scalars.h"
#include "config/config.h"
#include "train/plan.h"

namespace trireme {

/// Collective. RUN/local.json as rank 0 reads it; nullopt: the run has nothing on local disks. Throws CommonError.
std::optional<LocalNote> agree_on_local_note(const std::string& run_dir, Scalars& scalars);

/// Collective. The newest complete snapshot, in the run folder or on the hosts' local disks; every byte of it is
/// checked. One that is only on local disks is resumed from there if each host has all of it; otherwise each rank first
/// copies what its host has into the run folder, and shards that the local disk has are read from it. Incomplete or
/// damaged snapshots are named in warnings. Nullopt: there is none on either side. Throws CommonError: the run had some
/// and none is complete here, or one cannot be copied.
std::optional<ResumePlace> find_newest_complete(const Config& config, const LocalNote& note, Scalars& scalars);

/// Whether a snapshot has the best weights so far, as the next start sees it.
bool is_best(const Manifest& manifest);

/// Collective. The folder of this run below checkpoint.local, on every host; empty if that is not set. Removes what the
/// run left on disks that it no longer uses. Throws CommonError if a host cannot write there.
std::string open_local_folder(const Config& config, Scalars& scalars);

}  // namespace trireme
