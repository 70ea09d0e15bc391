#pragma once
// Which of a run's step folders count. The newest complete one is the run's state, whatever `latest` names: a process
// killed between the two writes leaves `latest` outdated. A run that returns to an older step abandons the later ones:
// RUN/left-behind has a line for each, its name and the XXH3 of its manifest, so that a step that is made again counts
// at once.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/option_names.h"

namespace trireme {

/// Complete steps that were not abandoned, ascending.
std::vector<int64_t> steps_in_line(const std::string& run_dir);

/// The newest of them; warns where `latest` names another. Throws Error::data if `latest` names one but none exists, or
/// if all were abandoned, naming --checkpoint.resume none as `names` does. Nothing if the folder holds no checkpoint.
std::optional<int64_t> newest_step(const std::string& run_dir, const OptionNames& names = {});

/// One of this step, with this XXH3 of its manifest, was abandoned.
bool was_abandoned(const std::string& run_dir, int64_t step, uint64_t manifest_hash);

/// The run continues from `step`, wherever it is stored: complete steps of this folder after it become abandoned, those
/// up to it are not (or no longer). Only the owner of the run calls this. Throws Error::io.
void abandon_later_steps(const std::string& run_dir, int64_t step);

/// Removes `latest`, `best` and `left-behind`: the run starts from scratch. Throws Error::io.
void forget_steps(const std::string& run_dir);

}  // namespace trireme
