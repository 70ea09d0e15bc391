#pragma once
// NHC's detached mode: answer immediately with the last result, check again in the background.

#include <optional>
#include <string>

#include "cluster/health/run.h"

namespace trireme::health {

/// The report that the last background run left in `path`; nullopt before the first one or if it is from before this
/// boot, and with a warning if the file cannot be read.
std::optional<Report> last_report(const std::string& path, const std::string& boot_id);
void save_report(const std::string& path, const std::string& boot_id, const Report& report);
/// Writes the report of this boot.
std::string this_boot_id();

/// Calls `body` in a separate process that outlives this one. Does nothing if an earlier one still holds the lock file
/// `path`.lock: runs must not pile up behind a hung check. Returns whether it started. Throws Error::io.
bool run_in_background(const std::string& path, const std::function<void()>& body);

}  // namespace trireme::health
