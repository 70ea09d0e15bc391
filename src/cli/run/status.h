#pragma once
#include <optional>
#include <string>
#include <vector>

namespace trireme {

/// For `trireme status` of several folders, or of one that is not a run folder but has some below it: prints a line per
/// run, with its node-hours, and their sum. Nothing for one run folder, or if there is no run at all.
std::optional<int> list_runs(const std::vector<std::string>& folders, bool json);

/// Node-hours of all attempts of a run: from the start of each to its last record. Nothing if the run folder does not
/// say on how many hosts they ran.
std::optional<double> node_hours(const std::string& run);

/// Shows the records of a run folder as a live page at PORT or ADDRESS:PORT until a stop is requested; token: the file
/// whose first line readers must send, empty: none. Returns the exit code. Throws Error::usage, io, data.
int serve_page(const std::string& run, const std::string& address, const std::string& token);

}  // namespace trireme
