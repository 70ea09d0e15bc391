#pragma once
// Which of a run's step folders count. The newest complete one is the run's state, whatever `latest` says: a process
// that is killed between the two leaves `latest` behind. A run that is sent back to an older step leaves the later ones
// behind: RUN/left-behind has a line for each, its name and the XXH3 of its manifest, so that a step that is made again
// counts at once.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// Complete steps that were not left behind, ascending.
std::vector<int64_t> steps_in_line(const std::string& run_dir);

/// The newest of them; warns where `latest` names another. Throws Error::data where there is none although `latest`
/// names one, or where all were left behind, naming --checkpoint.resume none. Nothing: the folder holds no checkpoint.
std::optional<int64_t> newest_step(const std::string& run_dir);

/// One of this step, with this XXH3 of its manifest, was left behind.
bool was_left_behind(const std::string& run_dir, int64_t step, uint64_t manifest_hash);

/// The run goes on from `step`, wherever that lies: complete steps of this folder after it are left behind, those up to
/// it are not (any longer). Only the owner of the run calls this. Throws Error::io.
void leave_behind(const std::string& run_dir, int64_t step);

/// Removes `latest`, `best` and `left-behind`: the run starts anew. Throws Error::io.
void forget_steps(const std::string& run_dir);

}  // namespace trireme
