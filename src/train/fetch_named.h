#pragma once
// Models and data sets that a run names instead of a folder are fetched before the ranks read them.

#include "hub/place.h"
#include "train/job.h"

namespace trireme {

/// Collective. One rank of each host fetches what is missing in its cache, the others wait for it with one line. Throws
/// on all ranks where it cannot be had, or when the job is to stop.
void fetch_named(const hub::Named& named, const Job& job);

}  // namespace trireme
