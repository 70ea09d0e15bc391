#pragma once
// Snapshots on the hosts' own disks (checkpoint.local) when a run starts: which one counts, and whose folder it is.

#include <optional>
#include <string>

#include "checkpoint/snapshot/local_disk.h"
#include "comm/scalars.h"
#include "config/config.h"
#include "train/start/resume.h"

namespace trireme {

/// Collective. RUN/local.json as rank 0 reads it; nothing: the run has nothing on local disks. Throws CommonError.
std::optional<LocalNote> agree_on_local_note(const Config& config, Scalars& scalars);

/// Collective. The newest snapshot that is whole, in the run folder or on the hosts' own disks, every byte of it read.
/// One that lies on local disks only is gone on from there where each host has all of it; else each rank first copies
/// what its host has into the run folder, and what is read of it comes from the host's own disk where that has it.
/// Those that are not whole, or damaged, are named in warnings. Nothing: neither side has one. Throws CommonError: the
/// run had some and none is whole here, or one cannot be copied.
std::optional<ResumePlace> find_on_both_sides(const Config& config, const LocalNote& note, Scalars& scalars);

/// A snapshot of the best weights so far, as the start after it sees that.
bool is_best(const Manifest& manifest, const Config& config);

/// Collective. The folder of this run below checkpoint.local, on every host; empty where that is not set. What the run
/// left on disks that it uses no longer is removed. Throws CommonError where a host cannot write there.
std::string open_local_folder(const Config& config, Scalars& scalars);

}  // namespace trireme
