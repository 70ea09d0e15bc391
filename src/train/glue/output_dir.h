#pragma once
// The recipe's rules for a folder that is there already.

#include <string>

#include "train/glue/options.h"

namespace trireme {

/// The step folder that training goes on from; empty: it starts anew. A folder that holds checkpoints is gone on with,
/// unless run.overwrite; one that holds other files is refused. Empty, too, where the run has snapshots on the
/// hosts' own disks, which nobody may copy before the folder is this job's (train/start/local_resume.h). Changes
/// nothing; not collective. Throws Error::config naming --overwrite-output-dir.
std::string find_start(const GlueOptions& options);

/// Removes the checkpoints of an earlier run.
void clear_checkpoints(const std::string& folder);

}  // namespace trireme
