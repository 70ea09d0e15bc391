#pragma once
// Names and small files of a run folder: step folders, `latest` and `best`, leftovers of interrupted saves, space.
//   step-00001234/     a complete checkpoint (it appears by one rename)
//   .saving-00001234-TOKEN/  one being written, TOKEN of its writers; a leftover once they are gone
//   .trash-*           one being deleted
//   latest, best       one line: the name of a step folder
//   left-behind        steps after one that the run returned to (run_steps.h)
//   local.json         snapshots on the hosts' own disks (local_disk.h)

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

std::string step_name(int64_t step);  ///< "step-00001234"
/// ".saving-00001234-TOKEN": writers of two jobs, of which one has lost the folder, never meet in one.
std::string saving_name(int64_t step, const std::string& token);
std::string shard_name(int rank, int ranks);  ///< "rank-00000-of-00002.safetensors"
std::optional<int64_t> parse_step_name(const std::string& name);
/// Steps that the run folder holds, ascending; a step folder without manifest.json does not count.
std::vector<int64_t> list_steps(const std::string& run_dir);

/// Creates the run folder if needed, removes the remains of interrupted saves and names step folders without a
/// manifest. Only the owner of the run calls this, while no save is under way. Throws Error::io when the folder cannot
/// be made or written.
void prepare_run_folder(const std::string& run_dir);

/// Step that `latest` or `best` names; nothing when the file is absent or not understood.
std::optional<int64_t> read_pointer(const std::string& run_dir, const char* name);
void write_pointer(const std::string& run_dir, const char* name, int64_t step);

/// Puts the folder `from` (in run_dir) in the place of `to`; removes the previous one.
void replace_folder(const std::string& run_dir, const std::string& from, const std::string& to);
/// Renames to .trash-NAME, then removes.
void remove_folder(const std::string& run_dir, const std::string& name);

/// Of a snapshot, and of the disk for this user.
struct SnapshotSpace {
  uint64_t bytes = 0, free = 0;
};

/// Throws Error::io naming `what`, found and needed when the folder's file system has too few blocks or inodes free for
/// this user to take new files of these sizes. advice: what to do then; empty: free space or set dir_option.
SnapshotSpace check_space(const std::string& folder, const std::string& what, std::span<const uint64_t> files,
                          std::string_view advice = {}, std::string_view dir_option = "--run.dir");

}  // namespace trireme
