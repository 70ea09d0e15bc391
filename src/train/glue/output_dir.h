#pragma once
// The recipe's rules for an output folder that exists already.

#include <string>

#include "train/glue/options.h"

namespace trireme {

/// The step folder that training resumes from; empty: a new run. A folder with checkpoints is resumed, unless
/// run.overwrite is set; one with other files is refused. Also empty if the run has snapshots on the hosts' local
/// disks: these must not be copied before this job has locked the folder (train/start/local_resume.h). Changes nothing;
/// not collective. Throws Error::config naming --overwrite-output-dir.
std::string find_start(const GlueOptions& options);

/// Removes the checkpoints of an earlier run.
void clear_checkpoints(const std::string& folder);

}  // namespace trireme
