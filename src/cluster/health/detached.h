#pragma once
// NHC's detached mode: answer at once with the last result, look again in the background.

#include <optional>
#include <string>

#include "cluster/health/run.h"

namespace trireme::health {

/// The report that the last background run left in `path`; none before the first one, none from before this boot, and
/// none where the file cannot be read, with a warning.
std::optional<Report> last_report(const std::string& path, const std::string& boot_id);
void save_report(const std::string& path, const std::string& boot_id, const Report& report);
/// Of this boot.
std::string this_boot_id();

/// Calls `body` in a process of its own that outlives this one. Does nothing when an earlier one still holds the lock
/// file `path`.lock: a hung check must not pile up runs. Returns whether it started. Throws Error::io.
bool run_in_background(const std::string& path, const std::function<void()>& body);

}  // namespace trireme::health
