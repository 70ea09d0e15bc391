#pragma once
// How lines of the log are written to standard error. Listeners get them without.

#include <cstdint>

namespace trireme::log {

enum class LineForm : uint8_t {
  plain,
  timed,  ///< begins with the time in UTC: "2026-01-31T23:59:59.123Z "
  json    ///< {"time": "...", "level": "info", "priority": 6, "rank": 0, "message": "..."}, a line per message
};

/// From now on, in the whole process. With json the status line is off.
void set_line_form(LineForm form);

}  // namespace trireme::log
