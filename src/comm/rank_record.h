#pragma once
// What a rank tells the `trireme launch` that started it: records, each alone on a line of standard error. The launch
// reads them and does not pass them on, so that nothing of the program depends on what its messages say.

#include <optional>
#include <string>
#include <string_view>

namespace trireme {

struct RankRecord {
  enum class Kind {
    arrived,  ///< the rank has reached MPI's start
    error,    ///< the rank has shown an error; text: its line
    lost,     ///< the rank has lost another one: rank, host; text: how that was noticed
  } kind = Kind::arrived;
  int rank = -1;
  std::string host = {};
  std::string text = {};
  bool operator==(const RankRecord&) const = default;
};

/// Without a line end; long texts are cut, so that the line is written at once (PIPE_BUF).
std::string to_line(const RankRecord& record);
/// Nothing for a line that is not a record.
std::optional<RankRecord> record_in(std::string_view line);

/// Writes the record where a launch reads it (kLaunchIdVariable is set); elsewhere does nothing. From any thread.
void tell_launch(const RankRecord& record);
/// From here on the launch hears of each error that the log shows.
void tell_launch_errors();

}  // namespace trireme
