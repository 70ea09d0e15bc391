#pragma once
// Snapshots on the hosts' own disks (checkpoint.local), from which they are copied into the run folder:
//   DIR/RUN-ID/step-00001234-TOKEN/  per host: the shards of its ranks, and the same manifest
//   RUN/local.json                   where that is; ID is drawn for the run, so that no two runs meet in one DIR
// A folder that has its manifest was written by all ranks. It is complete while every shard is still on some host.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/snapshot/manifest.h"

namespace trireme {

/// RUN/local.json: where a run has snapshots outside its folder. Removed when none is left.
struct LocalNote {
  std::string folder;   ///< DIR/RUN-ID, the same path on every host
  int64_t step = -1;    ///< newest snapshot there; -1: none yet
  int64_t copied = -1;  ///< newest of them that the run folder has, too
  bool operator==(const LocalNote&) const = default;
};

/// Nothing if it is missing. Throws Error::data.
std::optional<LocalNote> read_local_note(const std::string& run_dir);
/// Throws Error::io.
void write_local_note(const std::string& run_dir, const LocalNote& note);
void forget_local_note(const std::string& run_dir);

/// DIR/RUN-ID with an ID that no run had before.
std::string new_local_folder(const std::string& dir, const std::string& run_dir);
std::string local_step_name(int64_t step, const std::string& token);  ///< "step-00001234-TOKEN"

/// A snapshot as one host sees it.
struct LocalStep {
  int64_t step = 0;
  std::string path;
  uint64_t hash = 0;  ///< XXH3 of manifest.json
  Manifest manifest;
  std::vector<size_t> shards;  ///< those present here with the right size, by index

  bool is_whole() const { return shards.size() == manifest.shards.size(); }
};

/// The snapshots of a run on this host's disk, ascending. Folders without a manifest do not count; unreadable ones are
/// named in a warning. A missing folder is empty.
std::vector<LocalStep> list_local_steps(const std::string& folder);
/// Reads every byte of these shards that this host has; one line per fault.
std::vector<std::string> verify_local_shards(const LocalStep& step, const std::vector<size_t>& shards);

/// A model's path, for programs that read but do not train. If the newest snapshot of a run folder is only on the
/// hosts' own disks: its folder on this host if it is complete here and `reads`, with a log line; else the path
/// unchanged, with a warning that names both snapshots. Throws Error::io if the run folder has none.
std::string newest_on_either_side(const std::string& path, bool reads);

/// A small file that several ranks of a host write alike, each of which may be the first. Throws Error::io.
void write_alike(const std::string& folder, const std::string& name, const std::string& text, int rank);

/// Removes a snapshot; all but the one of this name; the folder itself, too. Several ranks of a host may do so at once.
/// What cannot be removed is reported in a warning.
void remove_local_step(const std::string& path);
void clear_local_folder(const std::string& folder, const std::string& keep);
void remove_local_folder(const std::string& folder);

}  // namespace trireme
